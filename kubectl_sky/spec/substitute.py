"""Put envs into the fields workdir, file_mounts, service and volumes, as SkyPilot does.

Unlike there, values are put in as they are: quotes and backslashes in them do no harm. A secret's
value is never put in, for these fields are written into objects that are no Secrets: a reference to
one stays as it is, and is refused. The one field that can carry one is the login in a repository's
URL, which is passed on by the name of its variable. `run` and `setup` see variables as the shell
does; no other field sees them.
"""

import re
from collections import Counter
from dataclasses import replace

from kubectl_sky.errors import Problem
from kubectl_sky.spec import files, secret
from kubectl_sky.spec.document import Data, Document, Path, dotted

MAX_TEXT = 1024 * 1024  # characters of a value; a Kubernetes object holds 1.5 MiB
MAX_ADDED = 4 * MAX_TEXT  # that variables add to a document
FIELDS = ("workdir", "file_mounts", "service", "volumes")

_URL = ("workdir", "url")
_REFERENCE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?", re.ASCII)


class Filled:
    """A document with its variables put in; `unknown` has the paths that cannot be judged yet.

    These are texts whose variables come from the command line, and texts that refer to secrets.
    `keys` has those of them that are names of fields. `secret` are the paths that would show
    a secret's value. `written` is the document as it was. Texts that variables make too long are
    left alone and in `problems`.
    """

    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self._added = 0
        self.unknown: set[str] = set()
        self.keys: set[str] = set()
        self.secret: set[Path] = set()
        self.written = self.document = document
        if isinstance(document.data, dict) and not document.data.keys().isdisjoint(FIELDS):
            self._fill(document.data)

    def _fill(self, data: dict[Data, Data]) -> None:
        envs, self._secrets = _texts(data.get("envs")), secret.names(self.written)
        self._open = {name for name, text in envs.items() if text is None} - self._secrets
        self._values = {
            name: text
            for name, text in envs.items()
            if text is not None and name not in self._secrets
        }
        texts = {name: self._any(data[name], (name,)) for name in FIELDS if name in data}
        if any(texts[name] != data[name] for name in texts):
            self.document = replace(self.written, data=data | texts)

    def hides(self, path: str, key: bool = False) -> bool:
        """Say whether nothing may be said of the value at a path, or of its key, or shown there."""
        below = any(path[:end] in self.keys for end, char in enumerate(path) if char in ".[")
        return below or path in (self.keys if key else self.unknown)

    def _any(self, value: Data, path: Path) -> Data:
        if isinstance(value, dict):
            return {self._key(k, path): self._any(v, (*path, k)) for k, v in value.items()}
        if isinstance(value, list):
            return [self._any(item, (*path, index)) for index, item in enumerate(value)]
        return self._text(value, path)

    def _key(self, key: Data, path: Path) -> Data:
        filled = self._text(key, (*path, key))
        if self._hides(key):
            self.keys |= {dotted((*path, key)), dotted((*path, filled))}
        return filled

    def _text(self, value: Data, path: Path) -> Data:
        if not isinstance(value, str) or "$" not in value:
            return value
        if not self._fits(value, path):
            self.unknown |= {dotted(path)}
            return value
        filled = _REFERENCE.sub(lambda found: self._values.get(found[1], found[0]), value)
        leaks = not self._secrets.isdisjoint(references(filled))
        leaks = leaks and not (path == _URL and files.login(filled))
        if leaks:
            self.secret.add(path)
        if leaks or not self._open.isdisjoint(references(value)):
            self.unknown |= {dotted(path), dotted((*path[:-1], filled))}
        return filled

    def _hides(self, value: Data) -> bool:
        names = references(value) if isinstance(value, str) else ()
        return not self._secrets.isdisjoint(names) or not self._open.isdisjoint(names)

    def _fits(self, value: str, path: Path) -> bool:
        """Say whether the value with its variables is within the limits; else note the problem."""
        counts = Counter(references(value))
        added = sum(len(self._values.get(name, "")) * count for name, count in counts.items())
        if len(value) + added <= MAX_TEXT and self._added + added <= MAX_ADDED:
            self._added += added
            return True
        if not self.problems:
            limit = f"1 MiB in a value and {MAX_ADDED >> 20} MiB in a document"
            message = f"its variables make this too long: they may add {limit}"
            self.problems.append(self.written.problem(path, message))
        return False


def references(text: str) -> list[str]:
    """Return the names of the variables in a text."""
    return _REFERENCE.findall(text)


def _texts(values: Data) -> dict[str, str | None]:
    if not isinstance(values, dict):
        return {}
    return {str(name): None if text is None else str(text) for name, text in values.items()}
