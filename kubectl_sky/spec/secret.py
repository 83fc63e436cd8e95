"""Existing secrets: a task names them, and their values are in the cluster."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.variables import REFERENCE, REGISTRY, is_name
from kubectl_sky.spec.volumes import wrong_path

_SCOPES = ("personal.", "workspace.", "global.")  # of SkyPilot's API server; not distinguished here
_OBJECT = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAME = 253
_MOUNT = "mount_path"


@dataclass(frozen=True)
class SecretReference:
    """An existing Secret: a variable with its name, or a file if `path` is set.

    `key` is the name as the user wrote it, `name` is the Secret's name. `field` is the field that
    messages name.
    """

    key: str
    path: str | None = None
    field: str = "secrets"

    @property
    def name(self) -> str:
        """The name of the Secret in Kubernetes: `hf-token` for `HF_TOKEN`."""
        return self.key.lower().replace("_", "-")


def kept(data: Mapping[str, Any]) -> tuple[SecretReference, ...]:
    """Return the existing Secrets of a valid task, except those with a given value."""
    secrets = data.get("secrets")
    given_names = {str(name) for name in secrets} if isinstance(secrets, Mapping) else set()
    existing = [SecretReference(_bare(name)) for name in secrets or () if _is_reference(name)]
    for item in data.get("managed_secrets") or ():
        if isinstance(item, str):
            existing.append(SecretReference(_bare(item), None, "managed_secrets"))
            continue
        for name, value in item.items():
            path = (value or {}).get(_MOUNT)
            existing.append(SecretReference(_bare(name), path, "managed_secrets"))
    return tuple(
        dict.fromkeys(
            reference
            for reference in existing
            if reference.path or reference.key not in given_names
        )
    )


def names(document: Document) -> frozenset[str]:
    """Return the variables whose values are secrets and must not be shown.

    The values are in the task or in the cluster.
    """
    secret_names = {name for _, name, mounted in _named(document) if not mounted}
    login_names = {name for name, _ in entries(document.get("envs"))}.intersection(REGISTRY)
    return frozenset(secret_names | login_names)


def aliases(document: Document) -> Iterator[Path]:
    """Yield the fields that share their value with a secret by a YAML alias.

    A variable with the name of a secret counts as a secret.
    """
    secret_names = names(document)
    variables = [(field, name) for field in ("envs", "secrets") for name in secret_names]
    values = [document.node(path) for path in variables if not document.source(path)]
    nodes = {id(node) for node in values if node and node.value is not None}
    for path in document.shared(nodes) if nodes else ():
        is_unused = str(path[0]).startswith("x-")  # for anchors; no manifest has it
        if path not in variables and not is_unused and not document.source(path):
            yield path


def _is_reference(name: Data) -> bool:
    return isinstance(name, str) and name.startswith((REFERENCE, *_SCOPES))


def _bare(name: str) -> str:
    """Return the name without prefixes: `secrets:personal.TOKEN` is TOKEN."""
    name = name.removeprefix(REFERENCE)
    scope = next((scope for scope in _SCOPES if name.startswith(scope)), "")
    return name.removeprefix(scope)


def without_kept(secrets: Data) -> dict[Data, Data]:
    """Return the secrets with values from the task or the command line."""
    if not isinstance(secrets, dict):
        return {}
    return {name: value for name, value in secrets.items() if not _is_reference(name)}


def unnameable(document: Document) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, reason and hint of each secret with an invalid name."""
    existing = dict(references(document))
    for path, name, mounted in _named(document):
        letters = "letters, digits and _, no digit first"
        if not mounted and not is_name(name):
            yield path, "no variable can be called this", letters
        elif path in existing and (
            not _OBJECT.fullmatch(existing[path]) or len(existing[path]) > _MAX_NAME
        ):
            reason = f'no Secret can be called "{printable(existing[path])}"'
            yield path, reason, "use letters, digits, - and .; a letter or digit first and last"


def _named(document: Document) -> Iterator[tuple[Path, str, bool]]:
    """Yield the path and name of every secret, and whether it is mounted as a file."""
    secrets, managed = document.get("secrets"), document.get("managed_secrets")
    for name in map(str, secrets if isinstance(secrets, dict) else ()):
        yield ("secrets", name), _bare(name) if _is_reference(name) else name, False
    for index, item in enumerate(secrets if isinstance(secrets, list) else []):
        yield ("secrets", index), _bare(str(item)), False
    for index, item in enumerate(managed if isinstance(managed, list) else []):
        if isinstance(item, str):
            yield ("managed_secrets", index), _bare(item), False
        for name, value in entries(item):
            mounted = isinstance(value, dict) and bool(value.get(_MOUNT))
            yield ("managed_secrets", index, name), _bare(name), mounted


def references(document: Document) -> Iterator[tuple[Path, str]]:
    """Yield the path and name of every existing Secret that a task names."""
    for path, name, _ in _named(document):
        managed = path[0] == "managed_secrets"
        if managed or isinstance(path[1], int) or _is_reference(path[1]):
            yield path, SecretReference(name).name


def _paths(document: Document) -> Iterator[Problem]:
    managed = document.get("managed_secrets")
    targets = {
        path for field in ("volumes", "file_mounts") for path, _ in entries(document.get(field))
    }
    for index, item in enumerate(managed if isinstance(managed, list) else []):
        for name, value in entries(item):
            path = value.get(_MOUNT) if isinstance(value, dict) else None
            if not isinstance(path, str):
                continue
            message = wrong_path(path) or ("another mount has this path" if path in targets else "")
            targets.add(path)
            if message:
                yield document.problem(("managed_secrets", index, name, _MOUNT), message)


RULES = (_paths,)
