"""Checking a file ends within seconds of processor, whatever its texts are."""

import io
import time
from typing import Any

import pytest
import yaml

from kubectl_sky.spec.files import has_credentials
from kubectl_sky.submitting import validate
from tests.spec.test_every_field import ALL, Case

SECONDS = 2.0  # of processor, for a file
LENGTH = 30_000
SECONDS_OF_TEXT = 0.5  # what takes 2 seconds for twice the length, if it is quadratic
PATTERNS = (
    *"a1:[{/-.$ \t\n(',=é%@\\",
    *("a:", "a/", "${", "!a\n", "a b ", "a,", "1:", "0.", "x=", "[[ ", "<<A\n", "a@", "//"),
    *("git@a:a/", "projects/x/images/", "a://", "{a..b", "; ", "for ((", "-a", "\u202e"),
)
FIELDS = list({case.path: case for case in ALL}.values())
MAPS = ("envs", "secrets", "file_mounts", "volumes", "inputs")


def measure(data: Any) -> float:
    """Return the processor seconds that the check of a file takes, with its scripts."""
    text = yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False).encode()
    started = time.process_time()
    reports = validate.check(["-"], io.BytesIO(text), {}, local_files="skip")
    list(map(str, reports[0].problems))
    return time.process_time() - started


def find_slow(cases: dict[str, Any], limit: float) -> dict[str, float]:
    seconds = {name: measure(data) for name, data in cases.items()}
    return {name: taken for name, taken in seconds.items() if taken > limit}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_check_of_a_long_text_in_any_field_ends_in_time(pattern: str) -> None:
    text = (pattern * LENGTH)[:LENGTH]
    values = {str(case.path): Case(case.path, text, case.siblings).data for case in FIELDS}
    keys = {f"key of {name}": {"run": "echo hi", name: {text: "x"}} for name in MAPS}
    assert find_slow({**values, **keys}, SECONDS_OF_TEXT) == {}


MANY = {
    "envs": {f"K{number}": f"$K{number}" for number in range(20_000)},
    "file_mounts": {f"/d{number}": "./d" for number in range(20_000)},
    "volumes": {f"/d{number}": "data" for number in range(49_000)},
    "resources": {"labels": {f"k{number}": "v" for number in range(20_000)}},
    "config": {"kubernetes": {"pod_config": {"spec": {f"k{n}": 1 for n in range(20_000)}}}},
}
CANDIDATES = {
    "accelerators": {f"G{number}": 1 for number in range(20_000)},
    "gpus": [f"A100:{number}" for number in range(20_000)],
    "any_of": [{"cpus": 1}] * 40_000,
    "ordered": [{"accelerators": "A1000"}] * 20_000,
}


@pytest.mark.parametrize("field", [*MANY, *CANDIDATES])
def test_check_of_many_entries_ends_in_time(field: str) -> None:
    many = {field: MANY[field]} if field in MANY else {"resources": {field: CANDIDATES[field]}}
    assert find_slow({field: {"run": "echo hi", **many}}, SECONDS) == {}


def test_search_for_credentials_in_a_long_path_ends_in_time() -> None:
    started = time.process_time()
    assert has_credentials("~/" + "a/" * 60_000 + ".cache/huggingface/token/x")
    assert time.process_time() - started < SECONDS


def test_check_of_many_empty_documents_ends_in_time() -> None:
    started = time.process_time()
    (report,) = validate.check(["-"], io.BytesIO(b"---\n" * 1_000_000), {}, local_files="skip")
    assert "more than 500 documents" in str(report.problems[0])
    assert time.process_time() - started < SECONDS


def test_check_of_a_number_with_many_digits_is_a_problem() -> None:
    for digits in (4000, 5000):
        text = f"run: x\nconfig: {{kubernetes: {{dws: {{max_run_duration: '{'1' * digits}'}}}}}}\n"
        (report,) = validate.check(["-"], io.BytesIO(text.encode()), {}, local_files="skip")
        assert [problem.severity for problem in report.problems] == ["error"]
