"""Batch scripts of strangers: each is read in bounded time and memory, or refused."""

import time
import tracemalloc

import pytest

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.spec.scripts import MAX_SCRIPT
from tests.slurm.scripts import errors, make_document, make_script, read


def test_script_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidFiles, match="the batch script has more than 65,536 characters"):
        read(make_script("-N1", body=":\n" * (MAX_SCRIPT // 2)))


@pytest.mark.parametrize(
    "body",
    [
        "${a=" * 16_000,
        "./" * 30_000,
        ":" + "".join(f"<<A{number}" for number in range(4000)) + "\n" * 37_000,
        "seff\n" * 13_000,
    ],
    ids=["defaults", "steps", "here-documents", "findings"],
)
def test_script_of_any_text_is_read_in_a_second(body: str) -> None:
    start = time.process_time()
    make_document("-a 1", body=body)
    assert time.process_time() - start < 1


def test_first_line_that_is_too_long_is_refused_at_once() -> None:
    start = time.process_time()
    (problem,) = errors(make_script("-N1", first=f"#!{'a' * 20_000}!"))
    assert time.process_time() - start < 1
    assert "a batch script is for bash or sh" in problem.message


def test_variables_in_an_image_are_expanded_up_to_a_limit() -> None:
    body = f"a={'x' * 30_000}\nb={'$a' * 450}\nsrun --container-image={'$b' * 450} c"
    tracemalloc.start()
    errors(make_script("-N1", body=body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000
