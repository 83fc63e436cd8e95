"""Review task files: report risky fields, and refuse those that settings forbid.

Risky fields are those that reach beyond the task.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.errors import Problem
from kubectl_sky.settings import Settings, settings_file
from kubectl_sky.spec import dangers
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.spec.document import Document


@dataclass(frozen=True)
class Review:
    """The dangers of a file; settings turn some of them into errors (`refused`)."""

    dangers: tuple[Danger, ...] = ()

    @property
    def reported(self) -> tuple[Danger, ...]:
        """The dangers that settings do not refuse."""
        return tuple(danger for danger in self.dangers if not danger.refused)

    @property
    def refused(self) -> tuple[Problem, ...]:
        """The errors for the dangers that settings refuse."""
        return tuple(danger.problem for danger in self.dangers if danger.refused)


def review(
    path: str,
    documents: Sequence[Document],
    settings: Settings,
    environ: Mapping[str, str],
    overrides: Overrides | None = None,
) -> Review:
    """Review the documents of a task file, and the files that flags name."""
    folder = _folder(path)
    all_dangers = [danger for document in documents for danger in dangers.in_fields(document)]
    for document in documents:
        all_dangers += dangers.in_local_files(document, folder, _resolve)
    all_dangers += _variable_files(overrides or Overrides(), folder)
    return apply_settings(all_dangers, settings, environ)


def apply_settings(
    all_dangers: Sequence[Danger], settings: Settings, environ: Mapping[str, str]
) -> Review:
    """Sort the dangers in file order and apply the settings to them."""
    file = str(settings_file(environ))
    return Review(tuple(dangers.judge(sorted(dict.fromkeys(all_dangers)), settings, file)))


def _variable_files(overrides: Overrides, folder: str) -> Iterator[Danger]:
    flags = (("--env-file", overrides.env_files), ("--secret-file", overrides.secret_files))
    for flag, sources in flags:
        for source in sources:
            target = _resolve(source)
            if os.path.isfile(target):  # noqa: PTH113 -- a pipe is not a user's file
                danger = dangers.in_variable_file(flag, source, target, folder)
                if danger:
                    yield danger


def _folder(path: str) -> str:
    """Return the folder of a task file; the current folder for stdin and pipes."""
    file = Path(path)
    return _resolve(str(file.parent)) if file.is_file() else _resolve(".")


def _resolve(path: str) -> str:
    """Resolve a path; it does not need to exist."""
    try:
        return os.path.realpath(Path(path).expanduser())
    except (OSError, RuntimeError, ValueError):  # no home directory; a NUL character
        return path
