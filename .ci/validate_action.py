"""Validate the task files of a checkout, which may be a stranger's: the last step of action.yml."""

import fnmatch
import os
import posixpath
import secrets
import subprocess
import sys
from pathlib import Path

Pattern = tuple[str, ...]  # by the parts of its path

NOT_FOUND = 2  # as `kubectl sky validate` exits for a file with an error


def main() -> int:
    # Names and messages may come from a stranger: until the token, no line is a workflow command.
    token = secrets.token_hex(32)
    write(f"::stop-commands::{token}")
    code = validate(
        os.environ["FILES"].splitlines(),
        strict=os.environ["STRICT"] == "true",
        packages=Path(os.environ["RUNNER_TEMP"], "kubectl-sky"),
    )
    write(f"::{token}::")
    return code


def validate(lines: list[str], *, strict: bool, packages: Path) -> int:
    """Validate the files that match a pattern; return the exit code."""
    patterns = [line.strip() for line in lines if line.strip()]
    files = find(patterns)
    if not files:
        write(f"error: no files match {' '.join(patterns)}")
        return NOT_FOUND

    options = ["--no-local-files"]
    if strict:
        options.append("--strict")
    command = [sys.executable, "-P", "-m", "kubectl_sky", "validate", *options, "--", *files]
    path = os.pathsep.join([os.environ["ACTION_PATH"], str(packages)])
    return subprocess.call(command, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.STDOUT)


def find(patterns: list[str]) -> list[str]:
    """Return the files below the current folder that match a pattern, without symbolic links."""
    parsed: set[Pattern] = {tuple(posixpath.normpath(text).split("/")) for text in patterns}
    files = []
    folders = [("", parsed)]
    for folder, wanted in folders:  # no recursion: a stranger's folders may be deep
        try:
            entries = list(os.scandir(folder or "."))
        except OSError as error:  # such as a path of more than 4096 bytes
            write(f"skipped: {folder[:200]!a}: {error.strerror}")
            continue

        for entry in entries:
            name = folder + entry.name
            left = match(entry.name, wanted)
            if left and entry.is_dir(follow_symlinks=False):
                folders.append((f"{name}/", left))
            elif left & {(), ("**",)}:
                if entry.is_symlink():
                    write(f"skipped: {name!a} is a symbolic link")
                else:
                    files.append(name)
    return sorted(files)


def match(name: str, patterns: set[Pattern]) -> set[Pattern]:
    """Return what is left of the patterns below a folder; () and ("**",) match a file."""
    left: set[Pattern] = set()
    for head, *tail in filter(None, patterns):
        hidden = name[0] == "."
        if head == "**":
            left |= match(name, {tuple(tail)})
            if not hidden:
                left.add((head, *tail))
        elif fnmatch.fnmatchcase(name, head) and (not hidden or head[0] == "."):
            left.add(tuple(tail))
    return left


def write(line: str) -> None:
    """Print a line, at once: the output of another program follows."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
