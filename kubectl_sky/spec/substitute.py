"""Substitute envs in workdir, file_mounts, service and volumes, as SkyPilot does.

Unlike in SkyPilot, values are inserted unchanged: quotes and backslashes in them do no harm. A
secret's value is never inserted, because these fields are written to objects that are not Secrets.
A reference to a secret stays as it is and is rejected. The only field that can contain one is the
login in a repository's URL, which is passed on by the name of its variable. `run` and `setup` see
variables as the shell does; in other fields, variables are not substituted.
"""

import re
from collections import Counter

from msgspec.structs import replace

from kubectl_sky.errors import Problem
from kubectl_sky.spec import files, variables
from kubectl_sky.spec.document import Data, Document, Path, join_path

MAX_TEXT = 1024 * 1024  # characters of a value; a Kubernetes object holds 1.5 MiB
MAX_ADDED = 4 * MAX_TEXT  # characters that variables may add to a document
FIELDS = ("workdir", "file_mounts", "service", "volumes")

_URL = ("workdir", "url")
_SHELL_FORM = re.compile(r"\$\{([a-zA-Z_][a-zA-Z0-9_]*)[^a-zA-Z0-9_}]")  # such as ${NAME:-default}
# Variables of this shell, and how a file names their folders.
_FOLDERS = {"HOME": "~", "PWD": "."}
_REFERENCE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?", re.ASCII)


class Filled:
    """A document with substituted variables, and the paths that cannot be checked yet.

    `unknown` holds the paths of texts whose variables come from the command line, and of texts that
    refer to secrets. `keys` holds those of them that are field names. `secret` holds the paths that
    would reveal a secret's value. `written` is the original document. `problems` has the first
    problem of substitution. Texts that variables make too long are left unchanged. `unset` has an
    error for each text with a variable that nothing sets.
    """

    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self.unset: list[Problem] = []
        self._added = 0
        self.unknown: set[str] = set()
        self.keys: set[str] = set()
        self.secret: set[Path] = set()
        self.written = self.document = document
        if isinstance(document.data, dict) and not document.data.keys().isdisjoint(FIELDS):
            self._fill(document.data)

    def _fill(self, data: dict[Data, Data]) -> None:
        envs = data.get("envs")
        self._secrets = variables.secret_names(self.written)
        values = {str(name): text for name, text in envs.items()} if isinstance(envs, dict) else {}
        self._open = {name for name, text in values.items() if text is None} - self._secrets
        self._values = {
            name: str(text)
            for name, text in values.items()
            if text is not None and name not in self._secrets
        }
        self._variables = self._values.keys() | self._open | self._secrets
        texts = {name: self._any(data[name], (name,)) for name in FIELDS if name in data}
        if any(texts[name] != data[name] for name in texts):
            self.document = replace(self.written, data=data | texts)

    def hides(self, path: str, key: bool = False) -> bool:
        """Whether the value or key at a path must not be checked or shown."""
        in_hidden_key = any(
            path[:end] in self.keys for end, char in enumerate(path) if char in ".["
        )
        return in_hidden_key or path in (self.keys if key else self.unknown)

    def _any(self, value: Data, path: Path) -> Data:
        if isinstance(value, dict):
            filled = {self._key(key, path): (*path, key) for key in value}
            if len(filled) < len(value):
                kept = {field[-1] for field in filled.values()}
                lost = next(key for key in value if key not in kept)
                self._report((*path, lost), "is another field's name, too, with its variables set")
            return {key: self._any(value[field[-1]], field) for key, field in filled.items()}
        if isinstance(value, list):
            return [self._any(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path)

    def _key(self, key: Data, path: Path) -> Data:
        filled = self._text(key, (*path, key))
        names = references(key) if isinstance(key, str) else ()
        if not self._secrets.isdisjoint(names) or not self._open.isdisjoint(names):
            self.keys |= {join_path((*path, key)), join_path((*path, filled))}
        return filled

    def _text(self, value: Data, path: Path) -> Data:
        if not isinstance(value, str) or "$" not in value:
            return value
        if not self._fits(value, path):
            self.unknown |= {join_path(path)}
            return value

        if not self._variables.isdisjoint(_SHELL_FORM.findall(value)):
            self._report(path, "only $NAME and ${NAME} are substituted, no other form of the shell")
        self._check_set(value, path)

        filled = _REFERENCE.sub(lambda match: self._values.get(match[1], match[0]), value)
        if not filled and path[0] == "file_mounts":
            name = references(value)[0]
            hint = f"set it in envs, or with --env {name}=VALUE"
            self.unset.append(self.written.problem(path, f"the variable {name} is empty", hint))
        leaks = not self._secrets.isdisjoint(references(filled))
        leaks = leaks and not (path == _URL and files.login(filled))
        if leaks:
            self.secret.add(path)
        if leaks or not self._open.isdisjoint(references(value)):
            self.unknown |= {join_path(path), join_path((*path[:-1], filled))}
        return filled

    def _check_set(self, value: str, path: Path) -> None:
        """Report variables that nothing sets; $name in small letters may be another text."""
        if path == _URL and files.login(value):  # its variables are read on the nodes
            return
        for match in _REFERENCE.finditer(value):
            name = match[1]
            has_braces = match[0].startswith("${")
            if name not in self._variables and (has_braces or name.isupper()):
                if name in variables.RESERVED or name.startswith("SKYPILOT_"):
                    message = f"{name} is set in setup and run only"
                    hint = ""
                else:
                    message = f"the variable {name} is not set"
                    hint = f"set it in envs, or with --env {name}=VALUE"
                    if name in _FOLDERS:
                        hint = f"write {_FOLDERS[name]}"
                self.unset.append(self.written.problem(path, message, hint))
                return

    def _fits(self, value: str, path: Path) -> bool:
        """Check that the substituted value is within the limits; record a problem if not."""
        counts = Counter(references(value))
        added = sum(len(self._values.get(name, "")) * count for name, count in counts.items())
        if len(value) + added <= MAX_TEXT and self._added + added <= MAX_ADDED:
            self._added += added
            return True
        limit = f"1 MiB in a value and {MAX_ADDED >> 20} MiB in a document"
        self._report(path, f"its variables make this too long: they may add {limit}")
        return False

    def _report(self, path: Path, message: str) -> None:
        if not self.problems:
            self.problems.append(self.written.problem(path, message))


def references(text: str) -> list[str]:
    return _REFERENCE.findall(text)
