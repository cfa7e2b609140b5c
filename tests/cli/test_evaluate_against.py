"""`cgcl evaluate --against`."""

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("against", "said", "names"),
    [
        ("heart", "5 held-out links, each against", ["heart_mrr", "heart_hits@10"]),
        ("heart-released", "as HeaRT's released generator does", ["heart_mrr", "heart_hits@10"]),
        ("degree", "5 held-out links against as many unlinked pairs", ["degree_auc", "degree_ap"]),
    ],
)
def test_it_says_what_links_were_set_against(cli, run_folder: Path, against, said, names) -> None:
    result = cli("evaluate", run_folder, "--against", against, "--threads", "1")
    assert result.code == 0, result.err
    assert said in result.err
    lines = [line.split() for line in result.out.splitlines()]
    assert [line[0] for line in lines] == names
    assert all(0 <= float(line[1]) <= 1 for line in lines)
    told = json.loads(cli("evaluate", run_folder, "--against", against, "--json").out)
    assert {name: f"{told[name]:.6f}" for name in names} == dict(lines)
    assert (
        said.removeprefix("5 held-out links, each against")
        in f"5 held-out links against {told['against']['words']}"
    )
