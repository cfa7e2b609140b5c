"""`cgcl audit`: what is found goes to stdout, and the exit code tells a pipeline."""

import json
from pathlib import Path

import pytest


def write(name: str, *rows: str, header: str = "source,target") -> str:
    Path(name).write_text("\n".join([header, *rows]) + "\n")
    return name


@pytest.fixture
def files(cli) -> list[str]:
    """A sound split, in files."""
    return [
        "--train", write("train.csv", "Anna,Bob", "Cem,Dora", "Anna,Cem", "Bob,Dora"),
        "--val", write("val.csv", "Anna,Dora"),
        "--test", write("test.csv", "Bob,Cem"),
    ]  # fmt: skip


def test_a_run_of_ours_and_files_without_a_fault_are_clean(cli, run_folder, files) -> None:
    for arguments, told in (
        ([run_folder], "18 to learn from, 2 for validation, 5 for the test; 7 counter-examples."),
        (files, "4 to learn from, 1 for validation, 1 for the test; 0 counter-examples."),
    ):
        result = cli("audit", *arguments)
        assert (result.code, result.err) == (0, "")
        lines = result.out.splitlines()
        assert (lines[0], lines[-1]) == (f"Links: {told}", "No leak found.")
        assert "leak  " not in result.out


def test_a_leak_is_told_with_its_pairs_and_ends_with_1(cli, files: list[str]) -> None:
    write("test.csv", "Cem,Bob", "Bob,Anna", "Dora,Cem", "<b>,Anna")
    negatives = write("negatives.csv", "Dora,Anna")
    result = cli("audit", *files, "--test-negatives", negatives, "--pairs", "1")
    assert (result.code, result.err) == (1, "")
    assert result.out == (
        "Links: 4 to learn from, 1 for validation, 4 for the test; 1 counter-example.\n"
        "  leak      2 test links are also among the links to learn from, in the other direction.\n"
        "            'Anna' - 'Bob' and 1 more\n"
        "  leak      1 test counter-example is linked after all (1 in val).\n"
        "            'Anna' - 'Dora'\n"
        "  note      1 node of test links has no link to learn from: only features speak for it.\n"
        "            '<b>' - 'Anna'\n"
        "2 leaks found: figures measured on this split cannot be trusted.\n"
    )


def test_json_has_every_pair(cli, files: list[str]) -> None:
    write("test.csv", "Bob,Anna", "Dora,Cem", "Cem,Anna", "Dora,Bob")
    result = cli("audit", *files, "--pairs", "1", "--json")
    assert result.code == 1
    answer = json.loads(result.out)
    assert answer["is_clean"] is False
    assert answer["findings"][0]["pairs"] == [
        ["Anna", "Bob"], ["Anna", "Cem"], ["Bob", "Dora"], ["Cem", "Dora"],
    ]  # fmt: skip


def test_counter_examples_for_validation_are_looked_at(cli, files: list[str]) -> None:
    negatives = write("negatives.csv", "Bob,Anna")
    result = cli("audit", *files, "--val-negatives", negatives)
    assert result.code == 1
    assert "1 validation counter-example is linked after all (1 in train)." in result.out


def test_columns_separator_and_header_are_those_of_all_files(cli) -> None:
    write("train.csv", "1;Anna;Bob", "2;Cem;Dora", header="n;from;to")
    write("test.csv", "3;Bob;Anna", header="n;from;to")
    files = ["--train", "train.csv", "--test", "test.csv"]
    columns = ["--source", "from", "--target", "to", "--separator", ";"]
    result = cli("audit", *files, *columns)
    assert "'Anna' - 'Bob'" in result.out
    assert result.code == 1
    missing = cli("audit", *files, "--separator", ";")
    assert missing.code == 1
    assert "Name them: cgcl audit --train train.csv --source" in missing.err
    Path("train.csv").write_text("Anna,Bob\nCem,Dora\n")
    Path("test.csv").write_text("Anna,Dora\n")
    assert cli("audit", *files, "--no-header").code == 0
