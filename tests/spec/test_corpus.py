"""Public SkyPilot files: valid if SkyPilot accepts them, errors with lines otherwise."""

import csv
import os
from pathlib import Path

import pytest

from kubectl_sky.errors import InvalidFiles, Problem
from tests.spec.documents import found_in

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"

pytestmark = pytest.mark.outside

# Files that SkyPilot refuses and we accept, with reasons.
KNOWN_DIFFERENCES = {
    "upstream__tests__test_yamls__test_mixed_list_accelerators.yaml": (
        "a list of accelerators with their counts, `- T4: 1`, can only mean one thing"
    ),
}


def rows() -> list[dict[str, str]]:
    table = CORPUS / "VERDICTS.tsv"
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_corpus_exists() -> None:
    if not rows() and not os.environ.get("CI"):
        pytest.skip(f"no corpus beside the checkout, at {CORPUS}")
    assert rows(), f"CI needs the corpus at {CORPUS}"


def errors(text: str) -> list[Problem]:
    try:
        return [problem for problem in found_in(text) if problem.severity == "error"]
    except InvalidFiles as error:
        return list(error.problems)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_corpus_file_has_same_verdict_as_skypilot(row: dict[str, str]) -> None:
    problems = errors((CORPUS / row["file"]).read_text(encoding="utf-8"))
    if row["with_dummy_envs"] == "accept" or row["file"] in KNOWN_DIFFERENCES:
        assert [str(problem) for problem in problems] == []
    else:
        assert any(problem.line for problem in problems), row["error"]
