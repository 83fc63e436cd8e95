"""Our dataclasses do what the standard ones do."""

import copy
import dataclasses
import pickle
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

from kubectl_sky import values
from kubectl_sky.errors import Problem


def make(decorator: Any) -> tuple[type[Any], type[Any]]:
    """The same two classes by a decorator."""

    @decorator(frozen=True, order=True)
    class Point:
        """A point."""

        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)
        secret: str = dataclasses.field(default="", repr=False)

        @cached_property
        def far(self) -> int:
            return self.x + self.y

    @decorator(frozen=True)
    class Named(Point):
        """A point with a name."""

        name: str = "here"

        def __str__(self) -> str:
            return self.name

    return Point, Named


def said(action: Callable[[], object]) -> object:
    """Return what comes of it, an error by its kind."""
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return type(error)


CASES: dict[str, Callable[[Any, Any], object]] = {
    "shown": lambda point, named: (repr(point(1)), repr(named(1, name="a")), str(named(1))),
    "equal": lambda point, named: (point(1) == point(1, 2), point(1) == point(2), point(1) == 1),
    "other class": lambda point, named: (point(1) == named(1), point(1) != named(1)),
    "not compared": lambda point, named: point(1, tags=["a"]) == point(1),
    "hash": lambda point, named: (len({point(1), point(1, 2), point(2)}), {named(1): 1}[named(1)]),
    "order": lambda point, named: [one.x for one in sorted([point(2), point(1), point(1, 1)])],
    "order of two": lambda point, named: (point(1) <= point(1), point(2) > point(1, 9)),
    "order of others": lambda point, named: point(1) < 1,
    "order of another class": lambda point, named: point(1) < named(2),
    "made anew": lambda point, named: point(1).tags is point(1).tags,
    "replaced": lambda point, named: repr(dataclasses.replace(named(1), y=5)),
    "as a map": lambda point, named: dataclasses.asdict(named(1, tags=["a"])),
    "fields": lambda point, named: [field.name for field in dataclasses.fields(named)],
    "cached": lambda point, named: (point(1).far, vars(point(1))),
    "copied": lambda point, named: repr(copy.deepcopy(point(1, tags=["a"]))),
    "set": lambda point, named: setattr(point(1), "x", 2),
    "set anew": lambda point, named: setattr(point(1), "z", 2),
    "deleted": lambda point, named: delattr(point(1), "x"),
    "none": lambda point, named: point(),
    "too many": lambda point, named: point(1, 2, [], "", 3),
    "unknown": lambda point, named: point(1, z=2),
    "unknown for a missing one": lambda point, named: point(z=2),
}


@pytest.mark.parametrize("name", CASES)
def test_same_as_the_standard_ones(name: str) -> None:
    ours, theirs = (make(one) for one in (values.dataclass, dataclasses.dataclass))
    assert said(lambda: CASES[name](*ours)) == said(lambda: CASES[name](*theirs))


def test_matched_by_position() -> None:
    point, _ = make(values.dataclass)
    match point(1, 5):
        case point(x, y):
            assert (x, y) == (1, 5)


def test_pickled() -> None:
    problem = Problem("task.yaml", 1, 2, "run", "is missing")
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_replaced_by_ours() -> None:
    """As by the standard function, which is told of both kinds."""
    for decorator in (values.dataclass, dataclasses.dataclass):
        point, named = make(decorator)
        one = named(1, tags=["a"])
        assert one.far == one.x + one.y, "now it is cached"
        assert repr(values.replace(one, y=5)) == repr(dataclasses.replace(one, y=5))
        assert values.replace(one, y=5).far == 6
        assert type(values.replace(point(1))) is point
        for change in ({"z": 1}, {"far": 1}):
            with pytest.raises(TypeError):
                values.replace(one, **change)
