"""What differs between tasks, and the numbers in their logs."""

import json
import time

import pytest
from msgspec.structs import replace

from kubectl_sky.observe.comparison import ComparedTask, compare, flatten, read_metrics

TASK = ComparedTask("a", "aaaa1234", None, "completed", 0, 5, {"run": "x"}, {"loss": 1.0})


@pytest.mark.parametrize(
    ("line", "metrics"),
    [
        ("loss=0.5 acc: 91", {"loss": 0.5, "acc": 91}),
        ("epoch 3 | loss = 1e-3, val/acc=.5", {"loss": 0.001, "val/acc": 0.5}),
        ('{"loss": -2, "lr": 0.1}', {"loss": -2, "lr": 0.1}),
        ("loss=0.5\r", {"loss": 0.5}),
        ("at 12:30:05 on http://host:8080/ port localhost:80:80 v: 1.2.3", {}),
        ("2026-11-29T10:00:00Z INFO x:y=z", {}),
        ("loss=nan", {}),
    ],
)
def test_numbers_with_names_are_read(line: str, metrics: dict[str, float]) -> None:
    assert read_metrics([line.encode()]) == metrics


def test_numbers_in_long_lines_are_read_in_no_time() -> None:
    start = time.process_time()
    assert read_metrics([b"loss=1 " + b"a=" + b"1" * 100_000 + b"x"]) == {"loss": 1}
    assert read_metrics([b"a=" + b"1" * 1000 + b"x"] * 200) == {}
    assert time.process_time() - start < 1


def test_last_value_of_a_number_counts() -> None:
    assert read_metrics([b"loss=1", b"loss=0.5 lr=1", b"done"]) == {"loss": 0.5, "lr": 1}


def test_fields_and_numbers_that_all_have_are_compared() -> None:
    other = replace(TASK, fields={"run": "x", "image": "b"}, metrics={"loss": 2.0, "acc": 1.0})
    silent = replace(TASK, metrics={})
    result = compare([TASK, other, silent])
    assert result.differing == ["image"]
    assert result.metrics == ["loss"]


def test_fields_of_a_file_have_paths_and_no_secrets() -> None:
    env = [{"name": "API_KEY", "value": "hunter2"}, {"name": "LR", "value": "1"}]
    file = {
        "envs": {"LR": 0.1, "API_TOKEN": "x"},
        "ports": [1, 2],
        "run": "a\nb",
        "containers": [{"env": env}],
    }
    assert dict(flatten(file)) == {
        "envs.LR": "0.1",
        "envs.API_TOKEN": "REDACTED",
        "ports": "[1, 2]",
        "run": "a\nb",
        "containers": json.dumps([{"env": [{**env[0], "value": "REDACTED"}, env[1]]}]),
    }
