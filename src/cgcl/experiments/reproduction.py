"""The runs of a study: made once, kept as they come, written as tables and figures."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from cgcl.errors import RunFolderError
from cgcl.experiments import tables
from cgcl.experiments.log import ResultFolder, pending, sound_lines
from cgcl.experiments.study import (
    CellId,
    Chosen,
    Experiment,
    Job,
    Record,
    chosen_by_grid,
    read_data,
    study_pages,
)
from cgcl.experiments.tables import Table, csv_text, cut_note, table_of, toml_text
from cgcl.files import make_folder, write_atomically
from cgcl.graph import Graph
from cgcl.methods.cgcl import CrossViewLearner, draw
from cgcl.methods.method import Epoch
from cgcl.methods.scoring import decode_pairs
from cgcl.methods.settings import CGCLSettings
from cgcl.metrics import auc
from cgcl.model import symmetric
from cgcl.split import Split, random_split
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with, machine, resolve_device, versions
from cgcl.train.fit import Fitted, fit_many, known_of

RUNS = "runs.jsonl"
TRACE = "trace"
"""Loss, validation metrics and the terms of Eq. 10-11 at every look."""
EMBEDDINGS = "embeddings"
"""How distinct the embeddings are, and how well those of two views agree."""


_MOST_TOGETHER = 10
_LONGEST_REASON = 500
_DIGITS = 6


def measure(name: str, trained: Fitted, split: Split, job: Job) -> Any:  # noqa: ANN401
    """Return what a measure finds, fit for JSON.

    Args:
        name: `TRACE` or `EMBEDDINGS`.
        trained: The model.
        split: What it was trained on.
        job: The run.
    """
    return _trace(trained) if name == TRACE else _embeddings(trained, split, job)


def _trace(trained: Fitted) -> dict[str, list[Any]]:
    """Return columns: the epochs with a look, and what was seen."""
    looks = [record for record in trained.history if "val" in record]
    columns: dict[str, list[Any]] = {"epoch": [look["epoch"] for look in looks]}
    columns["loss"] = [
        round(sum(look["losses"]) / max(len(look["losses"]), 1), _DIGITS) for look in looks
    ]
    for name in ("auc", "ap"):
        columns[f"val_{name}"] = [round(look["val"][name], _DIGITS) for look in looks]
    for term in looks[0].get("consistency", {}) if looks else ():
        columns[term] = [round(look["consistency"][term], _DIGITS) for look in looks]
    return columns


def _embeddings(trained: Fitted, split: Split, job: Job) -> dict[str, float]:
    learner, settings = trained.learner, job.recipe.settings
    if not isinstance(learner, CrossViewLearner) or not isinstance(settings, CGCLSettings):
        raise TypeError(f"{job.recipe.name} has no views to compare")
    known = known_of(trained.graph, split.train, learner)
    z = learner.embedded(known, symmetric(known.links))
    # Views that no epoch has trained on.
    epoch = Epoch(trained.history[-1]["epoch"] + 1, job.recipe.split.seed)
    views = draw(known, epoch, settings).views
    z_1, z_2 = (learner.embedded(known, view.edge_index) for view in (views.view_1, views.view_2))
    pairs, count = torch.cat([split.test, split.test_negatives], dim=1), split.test.shape[1]
    logits = torch.stack([decode_pairs(learner, own, pairs).double() for own in (z_1, z_2)])
    found = {
        "mean_cosine": mean_cosine(z),
        "effective_rank": effective_rank(z),
        "same_node_cosine": cosine_similarity(z_1, z_2).mean(),
        "other_node_cosine": cosine_similarity(z_1, z_2.roll(1, 0)).mean(),
        "logit_correlation": torch.corrcoef(logits)[0, 1],
        "probability_difference": logits.sigmoid().diff(dim=0).abs().mean(),
        "auc_view_1": auc(logits[0, :count], logits[0, count:]),
        "auc_view_2": auc(logits[1, :count], logits[1, count:]),
    }
    return {name: round(float(value), _DIGITS) for name, value in found.items()}


def mean_cosine(z: Tensor) -> float:
    """Return the mean cosine of two different rows; 1 if all rows point the same way.

    Args:
        z: One row per node, [n, d_v].

    Example:
        >>> mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]))  # 0, 1 and 0
        0.3333333333333333
    """
    unit = normalize(z.double(), dim=1)
    count = z.shape[0]
    # The sum over all pairs is the square of the sum, less each row with itself.
    return float((unit.sum(0).square().sum() - unit.square().sum()) / (count * (count - 1)))


def effective_rank(z: Tensor) -> float:
    r"""Return $\exp(-\sum p_i \log p_i)$ with the singular values as shares $p_i$.

    It is the number of directions that the rows fill evenly (Roy and Vetterli, 2007).

    Args:
        z: One row per node, [n, d_v].

    Example:
        >>> round(effective_rank(torch.eye(3)), 6)
        3.0
    """
    values = torch.linalg.eigvalsh(z.double().T @ z.double()).clamp(min=0).sqrt()
    share = values / values.sum()
    return float(torch.exp(torch.special.entr(share).sum()))


def read_records(path: Path) -> list[Record]:
    """Return the sound records of a file of runs, in the order of writing."""
    return sound_lines(path.read_bytes().splitlines() if path.exists() else [], Record)[0]


def index(records: Iterable[Record]) -> dict[str, Record]:
    """Return the first record with a result for each key.

    The first one counts, so that a run which is made again by mistake changes no table. Where
    nothing else is there, a run of which more was measured stands for the same run without.
    """
    found: dict[str, Record] = {}
    good = [record for record in records if not record.failure]
    for record in good:
        found.setdefault(record.key, record)
    for record in good:
        found.setdefault(record.plain_key, record)
    return found


def records_of(places: Mapping[CellId, Sequence[Job]], found: Mapping[str, Record]) -> list[Record]:
    """Return the finished runs of an experiment, each once, in its own order.

    Args:
        places: Its runs by their place.
        found: What came out, by key.
    """
    keys = dict.fromkeys(job.key for jobs in places.values() for job in jobs)
    # A run that was measured may also stand for the same one without.
    return [*{found[key].key: found[key] for key in keys if key in found}.values()]


class Records(ResultFolder[Record]):
    """A folder of runs that this process owns until `close`."""

    def __init__(self, path: Path) -> None:
        """Create or open the folder, and read what is in it.

        Raises:
            RunFolderError: Another process is at work in it.
            ResourceError: It cannot be written.
        """
        super().__init__(path, RUNS, Record)

    @property
    def found(self) -> dict[str, Record]:
        """The runs with a result, by key."""
        return index(self.results)

    def require_graph(self, name: str, fingerprint: str) -> None:
        """Refuse to add to runs on another graph of the same name.

        Raises:
            RunFolderError: The folder has such runs.
        """
        prints = {record.fingerprint for record in self.found.values() if record.graph == name}
        others = prints - {fingerprint}
        if others:
            there = f"{self.path} holds runs on another {name} ({min(others)[:12]})"
            raise RunFolderError(f"{there}; this one is {fingerprint[:12]}.\nChoose another `out`.")


def pending_jobs(jobs: Sequence[Job], records: Records) -> list[Job]:
    """Return the jobs without a result, each once, in their order.

    One that is also asked for with a measure is left out: that run will stand for both.
    """
    left = pending(jobs, records.found)
    measured = {job.plain_key for job in left if job.measures}
    return [job for job in left if job.key not in measured]


def run_jobs(
    jobs: Sequence[Job],
    records: Records,
    read: Callable[[str], Graph],
    resources: Resources,
    on_result: Callable[[Job, Record], None] = lambda *_: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Make the runs that are missing; tell whether it came to the end.

    A run that fails is written down as failed, stops nothing, and is tried again next time.

    Args:
        jobs: What is asked for.
        records: Keeps what is found.
        read: Returns a graph by name.
        resources: Where to compute.
        on_result: Told of every run that has a result, or has failed.
        should_stop: Asked after every epoch; True ends it there.

    Raises:
        RunFolderError: The folder holds runs on another graph of that name.
        ResourceError: The folder cannot be written, or there is no such device.
    """
    left = pending_jobs(jobs, records)
    most = _MOST_TOGETHER if resolve_device(resources).type == "cuda" else 1

    # The jobs of one graph together, graphs in the order of their first job.
    for name in dict.fromkeys(job.graph for job in left):
        here, graph = [job for job in left if job.graph == name], read(name)
        records.require_graph(name, graph.fingerprint)
        maker = _Maker(graph, resources, should_stop)
        for batch in _batches(here, most):
            made = None if should_stop() else maker.made(batch)
            if made is None:
                return False
            for job, record in zip(batch, made, strict=True):
                records.append(record)
                on_result(job, record)
    return True


def _batches(jobs: Sequence[Job], most: int) -> Iterator[list[Job]]:
    """Yield jobs that may be trained together: CGCL with another seed, split or learning rate.

    Everything else is trained alone, so that each result is written as soon as it is there.
    """
    alike: dict[object, list[Job]] = {}
    for number, job in enumerate(jobs):
        settings, alone = job.recipe.settings, number
        if most > 1 and isinstance(settings, CGCLSettings) and TRACE not in job.measures:
            settings, alone = replace(settings, lr=0.01), -1
        alike.setdefault((job.test, job.recipe.name, settings, alone), []).append(job)
    for same in alike.values():
        for start in range(0, len(same), most):
            yield same[start : start + most]


@dataclass
class _Maker:
    """Makes the runs of one graph, each split drawn once."""

    graph: Graph
    resources: Resources
    should_stop: Callable[[], bool]
    drawn: dict[tuple[int, int], Split] = field(default_factory=dict)

    def split_of(self, job: Job) -> Split:
        """Return the split of a job."""
        key, shares = (job.test, job.split_seed), job.recipe.split
        if key not in self.drawn:
            self.drawn[key] = random_split(self.graph, shares.val, shares.test, job.split_seed)
        return self.drawn[key]

    def made(self, batch: Sequence[Job]) -> list[Record] | None:
        """Return a record for each job; None if it was stopped on the way."""
        splits, resources = [self.split_of(job) for job in batch], self.resources
        if any(TRACE in job.measures for job in batch):
            resources = replace(resources, track_consistency=True)
        try:
            trained = fit_many(
                self.graph,
                splits,
                [job.recipe for job in batch],
                resources,
                should_stop=self.should_stop,
                top_of_list=False,  # the paper's tables ask for AUC and AP
            )
            if any(own.stopped is not None and own.stopped.reason == "signal" for own in trained):
                return None
            with computing_with(resources):
                found = map(_came_out, batch, trained, splits)
                return [self.record(job, **own) for job, own in zip(batch, found, strict=True)]
        # Other runs must not pay for what goes wrong in this one, whatever it is.
        except Exception as error:
            torch.cuda.empty_cache()
            if len(batch) == 1:
                failure = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
                return [self.record(batch[0], failure=failure)]
        # One of them cannot be trained with the others.
        made = [self.made([job]) for job in batch]
        return None if None in made else [one for own in made if own for one in own]

    def record(self, job: Job, **came_out: Any) -> Record:  # noqa: ANN401
        """Return the record of a job: what came out, and where."""
        return Record.of(
            job,
            split=self.split_of(job).fingerprint,
            fingerprint=self.graph.fingerprint,
            versions=_versions(job.recipe.name),
            **machine(self.resources, resolve_device(self.resources)),
            **came_out,
        )


def _came_out(job: Job, trained: Fitted, split: Split) -> dict[str, Any]:
    return {
        "val": _rounded(trained.val),
        "metrics": _rounded(trained.test),
        "measured": {name: measure(name, trained, split, job) for name in job.measures},
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "parameters": trained.parameters,
        "stopped": trained.stopped.reason if trained.stopped else None,
        "seconds": round(trained.seconds, 2),
    }


def _rounded(values: dict[str, float] | None) -> dict[str, float] | None:
    return None if values is None else {name: round(own, _DIGITS) for name, own in values.items()}


@cache
def _versions(method: str) -> dict[str, str]:
    """Return what decides a result besides settings and seeds, a hash of our own code included."""
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    found = {**versions(method), "source": digest.hexdigest()[:12]}
    with contextlib.suppress(PackageNotFoundError):
        found["triton"] = version("triton")
    return found


CHOSEN_HEAD = (
    "The best AUC on the validation links of a method's grid on a graph, and of how many runs.",
    "Written from the runs of `cgcl reproduce grid`; nothing here is typed.",
)

Places = Mapping[CellId, Sequence[Job]]
Found = Mapping[str, Record]


def known_places(asked: Places, whole: Places, found: Found) -> dict[CellId, list[Job]]:
    """Return the runs that are asked for, and those of the experiment that are there besides.

    So the table of one part of an experiment does not take away what another part's has.

    Args:
        asked: The runs that are asked for by their place.
        whole: All runs of the experiment.
        found: What came out, by key.
    """
    known: dict[CellId, list[Job]] = {}
    for place, jobs in whole.items():
        wanted = {job.key for job in asked.get(place, ())}
        own = [job for job in jobs if job.key in wanted or job.key in found]
        if own:
            known[place] = own
    return known


def write_verdicts(found: Found, folder: Path, chosen: Chosen) -> Path:
    """Write what became of each claim; return the file.

    Args:
        found: What came out of all experiments, by key.
        folder: Where to write.
        chosen: The settings of each graph that runs were made with.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    path = folder / "verdicts.md"
    write_atomically(path, study_pages().claims_markdown(found, chosen).encode())
    return path


@dataclass(frozen=True)
class Findings:
    """What an experiment found, to be written down."""

    experiment: Experiment
    places: Places
    """Its runs by their place."""
    found: Found
    """What came out, by key."""
    chosen: Chosen
    """The settings of each graph that runs were made with."""
    epochs: int | None = None
    """What trainings were cut to, if they were; the files' names tell."""

    @property
    def table(self) -> Table:
        """What is known, beside the published numbers."""
        paper = read_data("paper")
        return table_of(self.experiment, self.places, self.found, paper, self.epochs)

    def write_tables(self, folder: Path) -> list[Path]:
        """Write it as Markdown, CSV and LaTeX; return the files.

        Raises:
            ResourceError: The disk is full or the folder cannot be written.
        """
        make_folder(folder)
        texts = dict(self._texts())
        for name, text in texts.items():
            write_atomically(folder / name, text.encode())
        written = [folder / name for name in texts]
        # Claims are judged by trainings as long as described, whatever is asked for.
        if self.experiment.name == "claims" and self.epochs is None:
            written.append(write_verdicts(self.found, folder, self.chosen))
        return written

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the content of each file."""
        name, table, records = self.experiment.name, self.table, self._records
        stem = self._file(name)
        yield f"{stem}.csv", tables.csv(table)
        if name == "grid":
            # A grid of which only some runs are asked for and there must not pass for a whole one.
            head = [line for line in (*CHOSEN_HEAD, cut_note(self.epochs)) if line]
            chosen = chosen_by_grid(self.found, self.epochs)
            yield f"{self._file('chosen')}.toml", toml_text(chosen, head)
        elif not name.startswith("fig"):
            yield f"{stem}.md", tables.markdown(table)
            yield f"{stem}.tex", tables.latex(table)
        asked = {measure for row in self.experiment.rows for measure in row.measures}
        for measure in (TRACE, EMBEDDINGS):
            if measure in asked and any(measure in record.measured for record in records):
                yield f"{stem}-{measure}.csv", measured_csv(records, measure, self.epochs)

    def write_figures(self, folder: Path) -> list[Path]:
        """Draw an experiment that is a figure of the paper; return the files, none for a table.

        Raises:
            ConfigError: What draws is not installed.
            ResourceError: The disk is full or the folder cannot be written.
        """
        name = self.experiment.name
        if not name.startswith("fig"):
            return []
        figures = study_pages().drawing()
        figure = figures.figure_of(self.experiment, self._records, cut_note(self.epochs))
        written: list[Path] = figures.write_figure(figure, folder, self._file(name))
        return written

    @property
    def _records(self) -> list[Record]:
        return records_of(self.places, self.found)

    def _file(self, name: str) -> str:
        return name if self.epochs is None else f"{name}-{self.epochs}-epochs"


def measured_csv(records: Sequence[Record], measure: str, epochs: int | None = None) -> str:
    """Return what was measured besides accuracy: a line for each run, or for each of its looks.

    Args:
        records: The runs.
        measure: Which measure.
        epochs: What trainings were cut to, if they were.
    """
    # `views` is also one of the terms of Eq. 10.
    head = ["graph", "test", "view_kind", "split_seed", "seed", "cut_to_epochs"]
    there = [own for own in records if measure in own.measured]
    columns = list(there[0].measured[measure]) if there else []
    rows: list[list[Any]] = []
    for record in there:
        views = record.settings.get("views")
        about = [record.graph, record.test, views, record.split_seed, record.seed, epochs]
        values = [record.measured[measure][column] for column in columns]
        looks = zip(*values, strict=True) if isinstance(values[0], list) else [values]
        rows += [[*about, *look] for look in looks]
    return csv_text([*head, *columns], rows) if there else ""
