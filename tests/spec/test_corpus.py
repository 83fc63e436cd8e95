"""Public SkyPilot files: what SkyPilot accepts is valid, what it refuses is told with a line."""

import csv
import os
from pathlib import Path

import pytest

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec.load import load
from kubectl_sky.spec.validate import validate

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"

pytestmark = pytest.mark.outside

# Files that SkyPilot refuses and we accept, each with its reason. There are none.
KNOWN_DIFFERENCES: dict[str, str] = {}


def verdicts() -> list[dict[str, str]]:
    table = CORPUS / "VERDICTS.tsv"
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def errors(path: Path) -> list[Problem]:
    try:
        documents = load(path.read_bytes(), path.name)
    except InvalidFiles as error:
        return list(error.problems)
    found = [problem for document in documents for problem in validate(document)]
    return [problem for problem in found if problem.severity == "error"]


def test_the_corpus_is_there() -> None:
    if not verdicts() and not os.environ.get("CI"):
        pytest.skip(f"no corpus beside the checkout, at {CORPUS}")
    assert verdicts(), f"CI needs the corpus at {CORPUS}"


@pytest.mark.parametrize("row", verdicts(), ids=lambda row: row["file"])
def test_as_skypilot_judges(row: dict[str, str]) -> None:
    found = errors(CORPUS / row["file"])
    if row["with_dummy_envs"] == "accept":
        assert [str(problem) for problem in found] == []
    elif row["file"] not in KNOWN_DIFFERENCES:
        assert found, row["error"]
        assert any(problem.line for problem in found)
