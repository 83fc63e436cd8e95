"""Which files of a folder stay behind: what its .skyignore says, else what git would ignore."""

import os
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky import bounded
from kubectl_sky.errors import UserError
from kubectl_sky.sync import patterns
from kubectl_sky.sync.patterns import LineTooLong, Rule

OURS, GITS = b".skyignore", b".gitignore"
_MAX_BYTES = 1024 * 1024
_HISTORY = patterns.read(b".git")  # changes with every git status; !.git takes it after all


@dataclass(frozen=True)
class Rules:
    """The ignore files that count in one folder, its own first.

    `base` is the path of the folder from where the paths begin, `name` what the files are called.
    """

    name: bytes
    patterns: tuple[Rule, ...] = _HISTORY
    base: bytes = b""
    above: "Rules | None" = None

    def leave_out(self, path: bytes, folder: bool) -> bool:
        """Whether a path stays behind; of a folder that does, nothing is taken."""
        rules: Rules | None = self
        while rules:
            within = path[len(rules.base) :]
            for rule in reversed(rules.patterns):
                if rule.matches(within, folder):
                    return not rule.negated
            rules = rules.above
        return False

    def within(self, path: bytes, files: os.PathLike[bytes] | bytes, has_file: bool) -> "Rules":
        """Return the rules of a folder below; `files` is where it is on this machine."""
        if not has_file:
            return self
        found = _read(os.path.join(files, self.name))
        return Rules(self.name, found, path + b"/" if path else b"", self)


def rules(folder: Path, with_parents: bool) -> tuple[Rules, bytes]:
    """Return the rules around a folder, and its own path as they see it.

    `with_parents` counts what the folders above say too, up to the repository's root: unless they
    ignore the folder itself, which somebody has asked for all the same.
    """
    if (folder / os.fsdecode(OURS)).is_file():
        return Rules(OURS), b""
    root = _repository(folder) if with_parents else folder
    found = _excluded(Rules(GITS), root)
    path = b""
    for part in folder.relative_to(root).parts:
        files = os.fsencode(root / os.fsdecode(path))
        found = found.within(path, files, os.path.isfile(os.path.join(files, GITS)))
        path = path + b"/" * bool(path) + os.fsencode(part)
        if found.leave_out(path, folder=True):
            return _excluded(Rules(GITS), folder), b""
    return found, path


def _repository(folder: Path) -> Path:
    parents = (folder, *folder.parents)
    return next((parent for parent in parents if (parent / ".git").exists()), folder)


def _excluded(found: Rules, root: Path) -> Rules:
    """Add what one clone alone ignores."""
    private = root / ".git" / "info" / "exclude"
    if not private.is_file():
        return found
    return Rules(GITS, _read(os.fsencode(private)), b"", found)


def _read(path: bytes) -> tuple[Rule, ...]:
    """Return the rules of an ignore file. Raises UserError for one that is too large."""
    shown = os.fsdecode(path)
    try:
        return patterns.read(bounded.read(path, _MAX_BYTES))
    except LineTooLong as error:
        message = f"{shown}:{error}:1: the pattern is longer than {patterns.MAX_LINE:,} bytes"
        raise UserError(message) from None
    except OSError as error:
        raise UserError(f"{shown}: {bounded.reason(error)}") from error
