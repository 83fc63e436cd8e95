"""Read what the user names on the command line: task files, standard input, files of variables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import dotenv

from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.load import MAX_BYTES, load

STDIN = "-"


def documents(path: str, stdin: BinaryIO) -> tuple[Document, ...]:
    """Load the documents of a file, or of standard input for `-`. Raises InvalidFiles."""
    name = "<stdin>" if path == STDIN else path
    try:
        if path == STDIN:
            text = stdin.read(MAX_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                text = file.read(MAX_BYTES + 1)  # one more than it takes to refuse it
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "name the task file in it" if isinstance(error, IsADirectoryError) else ""
        raise InvalidFiles([Problem(name, 0, 0, "", f"cannot be read: {reason}", hint)]) from error
    return load(text, name)


def variables(
    given: tuple[str, ...], flag: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Read `K=V`, or `K` alone for the caller's own variable of that name."""
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            if name not in environ:
                raise UserError(
                    f"{flag} {name}: has no value, and no such variable is set here",
                    f"write {flag} {name}=VALUE",
                )
            value = environ[name]
        yield name, value


def variable_files(paths: tuple[str, ...], flag: str) -> Iterator[tuple[str, str]]:
    """Read files of `K=V` lines as SkyPilot does: dotenv's rules."""
    for path in paths:
        try:
            with Path(path).open(encoding="utf-8") as file:
                values = dotenv.dotenv_values(stream=file)
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "is not UTF-8"
            raise UserError(f"{flag} {path}: {reason.lower()}") from error
        for name, value in values.items():
            if value is None:
                raise UserError(f"{flag} {path}: {name} has no value", f"write {name}=VALUE")
            yield name, value
