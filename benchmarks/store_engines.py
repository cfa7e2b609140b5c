"""Do the work of a store with DuckDB, Polars' streaming engine and Arrow: decision 29.

    pip install polars
    python benchmarks/store_engines.py [LINKS ...]

The work: read two columns of names, number the distinct ones in sorted order, list each unordered
pair once and sorted, and both directions of all pairs sorted. A process does it for each engine;
results go to benchmarks/results/store.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from scale import RESULTS, generate, measured

DUCKDB = """
import sys, duckdb
file, out = sys.argv[1:]
sql = duckdb.connect(out + "/db", config={"memory_limit": "2GB", "threads": 2})
run = sql.execute
run(f"CREATE TABLE raw AS FROM read_csv('{file}', all_varchar = true, header = true)")
run("CREATE TABLE names AS SELECT source AS name FROM raw UNION SELECT target FROM raw ORDER BY 1")
run("CREATE TABLE ids AS SELECT a.rowid AS s, b.rowid AS t FROM raw JOIN names a ON a.name = source"
    " JOIN names b ON b.name = target")
run("CREATE TABLE links AS SELECT DISTINCT least(s, t) AS low, greatest(s, t) AS high FROM ids"
    " WHERE s <> t ORDER BY low, high")
run("CREATE TABLE turned AS FROM links UNION ALL SELECT high, low FROM links ORDER BY 1, 2")
"""
POLARS = """
import sys, polars as pl
file, out = sys.argv[1:]
def kept(frame, name):
    frame.sink_parquet(f"{out}/{name}.parquet", engine="streaming")
    return pl.scan_parquet(f"{out}/{name}.parquet")
raw = pl.scan_csv(file, infer_schema=False)
ends = pl.concat([raw.select(name="source"), raw.select(name="target")])
names = kept(ends.unique().sort("name").with_row_index("id"), "names")
ids = raw.join(names, left_on="source", right_on="name").rename({"id": "s"})
ids = ids.join(names, left_on="target", right_on="name").rename({"id": "t"})
ids = kept(ids.select("s", "t").filter(pl.col("s") != pl.col("t")), "ids")
pairs = ids.select(low=pl.min_horizontal("s", "t"), high=pl.max_horizontal("s", "t"))
links = kept(pairs.unique().sort("low", "high"), "links")
turned = links.select(low="high", high="low")
kept(pl.concat([links, turned]).sort("low", "high"), "both")
"""
ARROW = """
import sys, pyarrow as pa, pyarrow.compute as pc
from pyarrow import csv, parquet
file, out = sys.argv[1:]
raw = csv.read_csv(file)
names = pc.unique(pa.chunked_array(raw["source"].chunks + raw["target"].chunks))
names = names.take(pc.array_sort_indices(names))
s, t = (pc.index_in(raw[end], value_set=names) for end in ("source", "target"))
del raw
pairs = pa.table({"low": pc.min_element_wise(s, t), "high": pc.max_element_wise(s, t)})
pairs = pairs.filter(pc.not_equal(s, t)).group_by(["low", "high"]).aggregate([])
order = [("low", "ascending"), ("high", "ascending")]
links = pairs.sort_by(order)
parquet.write_table(links, out + "/links.parquet")
both = pa.concat_tables([links, links.select(["high", "low"]).rename_columns(["low", "high"])])
parquet.write_table(both.sort_by(order), out + "/both.parquet")
"""
ENGINES = {"DuckDB, limit 2 GB": DUCKDB, "Polars, streaming": POLARS, "Arrow": ARROW}


def main() -> None:
    """Measure each engine and keep what it took."""
    lines = []
    for links in map(int, sys.argv[1:] or ("1000000", "10000000")):
        with tempfile.TemporaryDirectory() as name:
            generate(links // 10, links, 0, Path(name))
            for engine, program in ENGINES.items():
                with tempfile.TemporaryDirectory(dir=name) as out:
                    command = [sys.executable, "-c", program, f"{name}/links.csv", out]
                    took = measured(command, Path(out))
                lines.append({"engine": engine, "links": links, **took})
                print(lines[-1], flush=True)
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    RESULTS.write_text(json.dumps({**found, "engines": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
