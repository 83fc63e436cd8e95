"""Requests: each call has done its work when it returns, and raises its errors at once."""

import sys
from collections.abc import Iterator
from typing import Any, TextIO
from uuid import uuid4

from kubectl_sky.errors import UnknownName
from kubectl_sky.sky.exceptions import NotSupportedError
from kubectl_sky.words.skypilot_verbs import VERBS, option

__all__ = ["get", "optimize", "stream_and_get"]


class Request(str):
    """The id of a request; for scripts older than SkyPilot 0.8, its result.

    It unpacks, iterates and indexes, and has the length and truth of its result.
    """

    result: Any
    notes: tuple[str, ...]

    def __new__(cls, result: Any, notes: tuple[str, ...] = ()) -> "Request":
        request = super().__new__(cls, uuid4())
        request.result = result
        request.notes = notes
        return request

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result)

    def __getitem__(self, key: Any) -> Any:
        return self.result[key]

    def __len__(self) -> int:
        return len(self.result or ())

    def __bool__(self) -> bool:
        return self.result is None or bool(self.result)


class Row(dict[str, Any]):
    """A row with SkyPilot's names: `row["name"]` and `row.name`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"a row has no {name!r}")
        return self[name]


def get(request_id: str) -> Any:
    """Return the result of a request. Raises UnknownName for a text with its id."""
    if not isinstance(request_id, Request):
        raise UnknownName(f'request "{request_id}" not found', "use what the call has returned")
    return request_id.result


def stream_and_get(
    request_id: str, *, output_stream: TextIO | None = None, **ignored: object
) -> Any:
    """Print the notes of a request, and return its result."""
    result = get(request_id)
    notes = request_id.notes if isinstance(request_id, Request) else ()
    stream = output_stream or sys.stdout
    stream.writelines(f"{note}\n" for note in notes)
    return result


def optimize(dag: object, **ignored: object) -> Request:
    """Return the dag: nothing is to be chosen."""
    return Request(dag)


def check(verb: str, given: dict[str, Any], known: str) -> None:
    """Raise NotSupportedError for arguments without an equal, and TypeError for unknown ones."""
    for name in given.keys() - set(known.split()):
        if answer := option(VERBS[verb].command, f"--{name.replace('_', '-')}", verb):
            raise NotSupportedError(f"{verb}: {name}: {answer}")
        if not name.startswith("_"):  # those are for SkyPilot's own calls
            raise TypeError(f"{verb}() got an unexpected keyword argument {name!r}")


def refuse(verb: str) -> Any:
    """Return a function that raises the command line's answer to a verb.

    Raises AttributeError for other names.
    """
    verb = next((item for item in (verb, verb.replace(" ", "-")) if item in VERBS), verb)
    if verb not in VERBS:
        raise AttributeError(f"sky.{verb.replace(' ', '_')} is not supported")

    def call(*arguments: object, **options: object) -> None:
        raise NotSupportedError(f"sky {verb}: {VERBS[verb].answer}")

    return call
