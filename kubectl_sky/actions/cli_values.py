"""Read variables from command-line flags and from env files."""

import io
import os
from collections import ChainMap
from collections.abc import Iterator, Mapping

from kubectl_sky import bounded
from kubectl_sky.errors import UserError

MAX_BYTES = 1024 * 1024  # of an env file; a Secret or ConfigMap cannot hold more
_MAX_VALUE_CHARACTERS = 128 * 1024  # the longest variable that Linux passes to a program
_MAX_REFERENCES = 1000  # to other variables in one value


class _TooLong(Exception):
    """A variable's value exceeds a limit; the argument is its name."""


def variables(
    assignments: tuple[str, ...], flag: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Parse `K=V`, or `K` for the variable of that name in the environment."""
    for item in assignments:
        name, equals, value = item.partition("=")
        if not equals:
            if name not in environ:
                raise UserError(
                    f"{flag} {name}: no value, and no environment variable of this name",
                    f"use {flag} {name}=VALUE",
                )
            value = environ[name]
            if not bounded.is_utf8(value):
                raise UserError(f"{flag} {name}: the variable is not UTF-8")
        yield name, value


def variable_files(paths: tuple[str, ...], flag: str) -> Iterator[tuple[str, str]]:
    """Read files of `K=V` lines with dotenv's rules, as SkyPilot does."""
    for path in paths:
        try:
            values = _values(bounded.read(path, MAX_BYTES).decode())
        except UnicodeDecodeError as error:
            raise UserError(f"{flag} {path}: is not UTF-8") from error
        except OSError as error:
            raise UserError(f"{flag} {path}: {bounded.reason(error)}") from error
        except _TooLong as error:
            limits = f"the limit is {_MAX_VALUE_CHARACTERS >> 10} KiB for a value and 1 MiB for all"
            raise UserError(f"{flag} {path}: {error} is too long", limits) from None
        for name, value in values.items():
            if value is None:
                # Do not quote the line: it may be part of a multi-line secret.
                raise UserError(
                    f"{flag} {path}: a line has no value",
                    "write NAME=VALUE, and a value of several lines in quotes",
                )
            yield name, value


def _values(text: str) -> dict[str, str | None]:
    """Parse the variables of a file and resolve references in their values.

    Like `dotenv_values`, but with limits: `A=${A}${A}` doubles the value in each line.
    """
    from dotenv.main import DotEnv  # noqa: PLC0415 -- takes a tenth of a start, and few give files
    from dotenv.variables import parse_variables  # noqa: PLC0415

    values: dict[str, str | None] = {}
    env: ChainMap[str, str | None] = ChainMap(values, {**os.environ})
    total = 0
    for name, value in DotEnv(None, stream=io.StringIO(text, newline=None)).parse():
        if value is None:
            values[name] = None
            continue
        if len(value) > _MAX_VALUE_CHARACTERS or value.count("${") > _MAX_REFERENCES:
            raise _TooLong(name)
        parts, size = [], 0
        for atom in parse_variables(value):
            parts.append(atom.resolve(env))
            size += len(parts[-1])
            if size > _MAX_VALUE_CHARACTERS:
                raise _TooLong(name)
        total += size
        if total > MAX_BYTES:
            raise _TooLong(name)
        values[name] = "".join(parts)
    return values
