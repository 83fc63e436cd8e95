"""Decide which files are ignored: by .skyignore if any, else by git's rules."""

import os
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky import bounded
from kubectl_sky.errors import UserError
from kubectl_sky.sync import patterns
from kubectl_sky.sync.patterns import LineTooLong, Rule

OURS, GITS = b".skyignore", b".gitignore"
_MAX_BYTES = 1024 * 1024
_HISTORY = patterns.read(b".git")  # changes with every git status; include it with !.git


@dataclass(frozen=True)
class Rules:
    """The ignore files that apply to one folder, its own first.

    `base` is the folder's path relative to the root, `name` the name of the ignore files.
    """

    name: bytes
    patterns: tuple[Rule, ...] = _HISTORY
    base: bytes = b""
    above: "Rules | None" = None

    def leave_out(self, path: bytes, folder: bool) -> bool:
        """Check whether a path is ignored; an ignored folder is ignored with its content."""
        rules: Rules | None = self
        while rules:
            relative = path[len(rules.base) :]
            for rule in reversed(rules.patterns):
                if rule.matches(relative, folder):
                    return not rule.negated
            rules = rules.above
        return False

    def within(self, path: bytes, files: os.PathLike[bytes] | bytes, has_file: bool) -> "Rules":
        """Return the rules of a subfolder; `files` is its local path."""
        if not has_file:
            return self
        file_rules = _read(os.path.join(files, self.name))
        return Rules(self.name, file_rules, path + b"/" if path else b"", self)


def rules(folder: Path, with_parents: bool) -> tuple[Rules, bytes]:
    """Return the rules that apply to a folder, and its path relative to their root.

    `with_parents` includes the ignore files of parent folders up to the repository's root, unless
    they ignore the folder itself, which the user has explicitly given.
    """
    if (folder / os.fsdecode(OURS)).is_file():
        return Rules(OURS), b""
    root = _repository(folder) if with_parents else folder
    parent_rules = _excluded(Rules(GITS), root)
    path = b""
    for part in folder.relative_to(root).parts:
        files = os.fsencode(root / os.fsdecode(path))
        parent_rules = parent_rules.within(path, files, os.path.isfile(os.path.join(files, GITS)))
        path = path + b"/" * bool(path) + os.fsencode(part)
        if parent_rules.leave_out(path, folder=True):
            return _excluded(Rules(GITS), folder), b""
    return parent_rules, path


def _repository(folder: Path) -> Path:
    parents = (folder, *folder.parents)
    return next((parent for parent in parents if (parent / ".git").exists()), folder)


def _excluded(found: Rules, root: Path) -> Rules:
    """Add the rules of `.git/info/exclude`, which are local to one clone."""
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
