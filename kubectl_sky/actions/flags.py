"""Apply flags to the documents of a file, so that both are validated alike."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from kubectl_sky.actions import cli_values
from kubectl_sky.actions.overrides import Overrides
from kubectl_sky.spec.document import Document


@dataclass(frozen=True)
class _Values:
    """Variables and secrets from flags, read once: a file may be a pipe."""

    files: tuple[tuple[str, str], ...]
    env: tuple[tuple[str, str], ...]
    secret: tuple[tuple[str, str], ...]
    secret_files: tuple[tuple[str, str], ...]


def apply_flags(
    documents: Sequence[Document], overrides: Overrides, environ: Mapping[str, str]
) -> list[Document]:
    """Apply the flags to every task; `--name` goes to the header if there is one."""
    values = _Values(
        files=tuple(cli_values.variable_files(overrides.env_files, "--env-file")),
        env=tuple(cli_values.variables(overrides.env, "--env", environ)),
        secret=tuple(cli_values.variables(overrides.secret, "--secret", environ)),
        secret_files=tuple(cli_values.variable_files(overrides.secret_files, "--secret-file")),
    )
    fields = _fields(overrides)
    # A variable that is a secret in one task is a secret in all: they share the env file.
    secrets = {name for document in documents for name in _keys(document, "secrets")}
    return [
        document
        if document.is_header
        else _with_values(_with_fields(document, fields), values, secrets)
        for document in _renamed(documents, overrides.name)
    ]


def _renamed(documents: Sequence[Document], name: str | None) -> list[Document]:
    """Set `--name` as the name of the single task, or of the pipeline or group."""
    first, *rest = documents
    if name is None or (rest and not first.is_header):
        return [first, *rest]
    return [first.override(("name",), name, "--name"), *rest]


def _fields(overrides: Overrides) -> dict[str, tuple[tuple[str, ...], object]]:
    return {
        "--workdir": (("workdir",), overrides.workdir),
        "--num-nodes": (("num_nodes",), _number(overrides.num_nodes)),
        "--cpus": (("resources", "cpus"), overrides.cpus),
        "--memory": (("resources", "memory"), overrides.memory),
        "--gpus": (("resources", "accelerators"), overrides.gpus),
        "--image": (("resources", "image_id"), overrides.image),
        "--backend": (("config", "kubectl_sky", "backend"), overrides.backend),
        "--queue": (("config", "kubernetes", "quota", "queue"), overrides.queue),
        "--ports": (("resources", "ports"), list(overrides.ports) or None),
        "--expose": (("config", "kubectl_sky", "expose"), overrides.expose),
    }


def _with_fields(
    document: Document, fields: Mapping[str, tuple[tuple[str, ...], object]]
) -> Document:
    for flag, (field, value) in fields.items():
        if value is not None:
            document = document.override(field, value, flag)
    return document


def _with_values(document: Document, values: _Values, secrets: Set[str]) -> Document:
    files = dict(values.files)
    of_envs = {name: value for name, value in files.items() if name not in secrets}
    of_secrets = {name: value for name, value in files.items() if name in secrets}
    document = _with_entries(document, "envs", of_envs, "--env-file")
    document = _with_entries(document, "envs", dict(values.env), "--env")
    return _with_secrets(document, of_secrets, values)


def _with_secrets(document: Document, of_files: Mapping[str, str], values: _Values) -> Document:
    """Add secrets; a list of names of cluster Secrets becomes a map with both."""
    secrets = document.data.get("secrets")
    if isinstance(secrets, list) and (of_files or values.secret or values.secret_files):
        document = document.override(("secrets",), dict.fromkeys(map(str, secrets)), "--secret")
    document = _with_entries(document, "secrets", of_files, "--env-file")
    document = _with_entries(document, "secrets", dict(values.secret_files), "--secret-file")
    return _with_entries(document, "secrets", dict(values.secret), "--secret")


def _with_entries(document: Document, field: str, values: Mapping[str, str], flag: str) -> Document:
    return document.override_entries(field, values, flag) if values else document


def _number(text: str | None) -> object:
    """Convert an integer; leave other text for the schema to refuse."""
    return int(text) if text is not None and re.fullmatch("[0-9]{1,18}", text) else text


def _keys(document: Document, field: str) -> Mapping[str, object]:
    value = document.data.get(field)
    return value if isinstance(value, Mapping) else {}
