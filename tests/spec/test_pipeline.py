"""Files of several tasks: what their header says of them together."""

import pytest

from kubectl_sky.spec.pipeline import Pipeline, pipeline_of, seconds
from tests.spec.documents import read

TWO = "name: a\nrun: x\n---\nname: b\nrun: y\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run: x\n", None),
        ("name: p\n---\nrun: x\n", None),
        (TWO, Pipeline()),
        ("name: p\n---\n" + TWO, Pipeline("p")),
        ("name: 7\nexecution: serial\n---\n" + TWO, Pipeline("7")),
        ("name: g\nexecution: parallel\n---\nname: a\nrun: x\n", Pipeline("g", parallel=True)),
        (
            "name: g\nexecution: parallel\nprimary_tasks: [a]\ntermination_delay: 2m\n"
            "inter_connection: false\n---\n" + TWO,
            Pipeline("g", True, ("a",), {"default": 120}, connected=False),
        ),
    ],
)
def test_what_the_tasks_have_in_common(text: str, expected: Pipeline | None) -> None:
    assert pipeline_of(read(text)) == expected


def test_auxiliary_tasks_have_a_delay_and_primary_ones_none() -> None:
    assert Pipeline(parallel=True).delay("a") is None
    group = Pipeline(parallel=True, primary=("a",), delays={"b": 5, "default": 30})
    assert [group.delay(name) for name in "abc"] == [None, 5, 30]
    assert Pipeline(parallel=True, primary=("a",)).delay("b") == 0


@pytest.mark.parametrize(
    ("text", "expected"), [(30, 30), ("30", 30), ("30s", 30), ("5M", 300), ("1h", 3600), ("0", 0)]
)
def test_seconds(text: str | int, expected: int) -> None:
    assert seconds(text) == expected
