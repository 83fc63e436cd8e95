"""Read the documents of a file that the user named, or of stdin."""

import difflib
import errno
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from kubectl_sky.actions import skypilot_settings
from kubectl_sky.actions.config import preferences
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.slurm.convert import Call, convert, read_text
from kubectl_sky.slurm.directives import MAX_HEAD, find_late, is_script, lacks_first_line
from kubectl_sky.spec.document import Document, printable
from kubectl_sky.spec.load import MAX_BYTES
from kubectl_sky.spec.load import load as read_yaml
from kubectl_sky.spec.variables import is_named_as_secret
from kubectl_sky.words import bounded

STDIN = "-"
REQUEST = "<request>"  # the body of a request to a server
_STREAMS = {STDIN: "<stdin>", REQUEST: REQUEST}  # their names in messages
_TASK_FILES = (".yaml", ".yml")
_CALL = Call()
_NONE = "there is no such file in this folder: `kubectl sky init` writes one"
_INIT = "write a task file for it: kubectl sky init"
# What is no task file, and what to do with it.
_PROGRAMS = {
    ".py": ("a Python program", _INIT),
    ".sh": ("a shell script", _INIT),
    ".ipynb": ("a notebook", "make a program of it: jupyter nbconvert --to script"),
}
_VARIABLE = re.compile(r"([A-Z_][A-Z0-9_]*)=.*")
_LONG_DASHES = "\N{EN DASH}\N{EM DASH}\N{MINUS SIGN}"


def read_documents(
    path: str,
    stdin: BinaryIO,
    *,
    of_tasks: bool = True,
    call: Call = _CALL,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Document, ...]:
    """Load the documents of a file, or of stdin for STDIN and REQUEST. Raises InvalidFiles.

    `of_tasks` is whether the file may be meant as the command of a task. `call` is how a batch
    script is called.
    """
    if not path:
        raise UserError("the name of a file is empty", "is a variable of your shell not set?")
    name = _STREAMS.get(path, path)
    if f"/{path}".endswith(tuple(file[1:] for file in skypilot_settings.FILES)):
        hint = "its kubernetes: belongs below config: of a task"
        raise InvalidFiles([Problem(name, 0, 0, "", "SkyPilot's settings, not a task file", hint)])
    _refuse_program(path, name)
    try:
        text = stdin.read(MAX_BYTES + 1) if path in _STREAMS else bounded.read(path, MAX_BYTES)
    except OSError as error:
        reason = f"cannot be read: {bounded.reason(error)}"
        hint = _hint(Path(path), error, of_tasks)
        raise InvalidFiles([Problem(name, 0, 0, "", reason, hint)]) from error
    documents = parse(text, name, call, environ)
    if any(isinstance(document.get("services"), dict) for document in documents):
        hint = "write a task file for each service: kubectl sky init"
        raise InvalidFiles([Problem(name, 0, 0, "", "a file of Docker Compose, no task", hint)])
    return documents


def _refuse_program(path: str, name: str) -> None:
    """Raise InvalidFiles for a file that is a program, by its name or its content."""
    suffix = Path(path).suffix
    head = _read_head(path)
    if suffix not in _TASK_FILES and lacks_first_line(head):
        hint = "write #!/bin/bash at the start of the file"
        raise InvalidFiles([Problem(name, 1, 1, "", "a batch script begins with #!", hint)])
    if line := find_late(head):
        message = "#SBATCH stands after the first command, where sbatch ignores it"
        raise InvalidFiles([Problem(name, line, 1, "", message, "move the command below it")])
    quoted = shlex.quote(printable(path, 200))
    if suffix not in _TASK_FILES and b"\0" in head and os.access(path, os.X_OK):
        hint = f"to run it: kubectl sky run --workdir . -- {quoted}"
        raise InvalidFiles([Problem(name, 0, 0, "", "a program, not a task file", hint)])
    program = _PROGRAMS.get(suffix)
    if program and head and not is_script(head):
        what, step = program
        hint = f"{step} {quoted}"
        raise InvalidFiles([Problem(name, 0, 0, "", f"{what}, not a task file", hint)])


def parse(text: bytes, name: str, call: Call, environ: Mapping[str, str]) -> tuple[Document, ...]:
    """Return the documents of a task file, or that of a batch script of Slurm.

    A server reads no scripts: the folder that they start in is the client's. Raises InvalidFiles.
    """
    if name == REQUEST or not is_script(text):
        return read_yaml(text, name)
    table = preferences(environ).slurm
    return (convert(read_text(text, name), name, call, table),)


def is_batch_file(path: str) -> bool:
    """Report whether a file is a batch script of Slurm, by its content."""
    return is_script(_read_head(path))


def _read_head(path: str) -> bytes:
    """Return how a file begins; nothing of other paths, as reading a pipe would empty it."""
    if not os.path.isfile(path):  # noqa: PTH113 -- False for too long a name
        return b""
    try:
        return bounded.read_head(path, MAX_HEAD)
    except OSError:
        return b""


def _hint(path: Path, error: OSError, of_tasks: bool) -> str:
    if error.errno == errno.EFBIG:
        return "is it a task file?"

    folder = path if error.errno == errno.EISDIR else path.parent
    files = sorted(
        file.name for file in folder.glob("*") if file.suffix in _TASK_FILES and file.exists()
    )
    named = ", ".join(printable(str(folder / file), 200) for file in files[:3])
    if error.errno == errno.EISDIR:
        return f"name a task file in it{f': {named}' if named else ''}"
    if error.errno != errno.ENOENT:
        return ""
    return _missing_hint(path, files, named, of_tasks)


def _missing_hint(path: Path, files: Sequence[str], named: str, of_tasks: bool) -> str:
    """Return what to name instead of a file that does not exist; `files` are those beside it."""
    if option := str(path).lstrip(_LONG_DASHES) if str(path)[0] in _LONG_DASHES else "":
        return f"it begins with a long dash; write --{printable(option, 200)}"
    if path.is_symlink():
        return f"it is a link to {printable(str(path.readlink()), 200)}, which does not exist"
    if "\\" in path.name:
        return "write / instead of \\ in paths"
    if set("*?[").intersection(path.name):
        return f"no file matches; there are {named}" if named else "no file matches"

    return _similar_hint(path, files) or _other_hint(path, named, of_tasks)


def _similar_hint(path: Path, files: Sequence[str]) -> str:
    if similar := difflib.get_close_matches(path.name, files, n=1, cutoff=0.85):
        return f'did you mean "{printable(str(path.with_name(similar[0])), 200)}"?'
    stems = {Path(file).stem: file for file in files}  # all ends are alike
    stem = path.name.partition(".")[0] or path.name
    if similar := difflib.get_close_matches(stem, stems, n=1, cutoff=0.7):
        return f'did you mean "{printable(str(path.with_name(stems[similar[0]])), 200)}"?'
    return ""


def _other_hint(path: Path, named: str, of_tasks: bool) -> str:
    """Return what a word that is no file may mean; else which files there are."""
    if path.parts[0] in ("http:", "https:"):
        return "download it: curl -L URL | kubectl sky submit -"
    if re.fullmatch("[a-z0-9]+:", path.parts[0]):
        return "download it, and name the file"
    if names := [name for name in path.name.split(",")[1:] if name.endswith(_TASK_FILES)]:
        return f"separate files with spaces: … {printable(names[0], 200)}"
    if of_tasks and (variable := _VARIABLE.fullmatch(path.name)):
        name = variable[1]
        if is_named_as_secret(name):
            return f"for a secret, export {name}=…, then --secret {name}"
        return f"for a variable, write --env {name}=VALUE"

    if of_tasks and (not path.suffix or " " in path.name):
        command = shlex.quote(printable(str(path), 200))
        return f"to run a command without a file: kubectl sky run {command}"
    return f"there are {named}" if named else _NONE
