"""Variables given on the command line: by themselves, and in files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from kubectl_sky.errors import UserError


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
    if not paths:
        return
    import dotenv  # noqa: PLC0415 -- takes a tenth of a start, and few give files

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
