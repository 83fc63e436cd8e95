"""Decide which files are ignored: by .skyignore if any, else by git's rules."""

import os
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky import bounded
from kubectl_sky.errors import UserError
from kubectl_sky.sync import patterns
from kubectl_sky.sync.patterns import LineTooLong, Rule

SKYIGNORE, GITIGNORE = b".skyignore", b".gitignore"
_MAX_BYTES = 1024 * 1024
_GIT_FOLDER = patterns.read(b".git")  # changes with every git status; include it with !.git


@dataclass(frozen=True)
class Rules:
    """The ignore files that apply to one folder, its own first.

    `base` is the folder's path relative to the root, `name` the name of the ignore files.
    """

    name: bytes
    patterns: tuple[Rule, ...] = _GIT_FOLDER
    base: bytes = b""
    parent: "Rules | None" = None

    def ignores(self, path: bytes, folder: bool) -> bool:
        """Check whether a path is ignored; an ignored folder is ignored with its content."""
        rules: Rules | None = self
        while rules:
            relative = path[len(rules.base) :]
            for rule in reversed(rules.patterns):
                if rule.matches(relative, folder):
                    return not rule.negated
            rules = rules.parent
        return False

    def in_folder(self, path: bytes, files: os.PathLike[bytes] | bytes, has_file: bool) -> "Rules":
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
    if (folder / os.fsdecode(SKYIGNORE)).is_file():
        return Rules(SKYIGNORE), b""
    root = _repository(folder) if with_parents else folder
    parent_rules = _with_exclude_file(Rules(GITIGNORE), root)
    path = b""
    for part in folder.relative_to(root).parts:
        files = os.fsencode(root / os.fsdecode(path))
        parent_rules = parent_rules.in_folder(
            path, files, os.path.isfile(os.path.join(files, GITIGNORE))
        )
        path = path + b"/" * bool(path) + os.fsencode(part)
        if parent_rules.ignores(path, folder=True):
            return _with_exclude_file(Rules(GITIGNORE), folder), b""
    return parent_rules, path


def _repository(folder: Path) -> Path:
    parents = (folder, *folder.parents)
    return next((parent for parent in parents if (parent / ".git").exists()), folder)


def _with_exclude_file(rules: Rules, root: Path) -> Rules:
    """Add the rules of `.git/info/exclude`, which are local to one clone."""
    exclude_file = root / ".git" / "info" / "exclude"
    if not exclude_file.is_file():
        return rules
    return Rules(GITIGNORE, _read(os.fsencode(exclude_file)), b"", rules)


def _read(path: bytes) -> tuple[Rule, ...]:
    """Return the rules of an ignore file. Raises UserError for one that is too large."""
    name = os.fsdecode(path)
    try:
        return patterns.read(bounded.read(path, _MAX_BYTES))
    except LineTooLong as error:
        message = f"{name}:{error}:1: the pattern is longer than {patterns.MAX_LINE:,} bytes"
        raise UserError(message) from None
    except OSError as error:
        raise UserError(f"{name}: {bounded.reason(error)}") from error
