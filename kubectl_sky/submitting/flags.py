"""Flags that override a task file: they change its documents, so that both are validated alike."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.spec.document import Document
from kubectl_sky.submitting.overrides import FLAGS, Flag, Overrides
from kubectl_sky.words import bounded
from kubectl_sky.words.secret import Secret

# Flags whose values are added to a field, or change a part of it; --name may change the header.
_APART = ("name", "git_url", "git_ref", "env", "env_files", "secret", "secret_files", "sweep")
# Fields of resources that another one, set by a flag, replaces.
_REPLACED = {
    "accelerators": ("gpus",),
    "infra": ("cloud", "region", "zone"),
    "priority": ("priority_class",),
    "priority_class": ("priority",),
    "disk_size": ("ephemeral_storage",),
}


class _Values(Struct, frozen=True):
    """Variables and secrets from flags, read once: a file may be a pipe."""

    files: tuple[tuple[str, str], ...]
    env: tuple[tuple[str, str], ...]
    secret: tuple[tuple[str, Secret], ...]
    secret_files: tuple[tuple[str, Secret], ...]


def apply_flags(
    documents: Sequence[Document], overrides: Overrides, environ: Mapping[str, str]
) -> list[Document]:
    """Apply the flags to every task; `--name` goes to the header if there is one."""
    if overrides.workdir is not None and overrides.git_url is not None:
        raise UserError("--workdir and --git-url exclude each other", "remove one of them")
    values = _Values(
        files=tuple(variable_files(overrides.env_files, "--env-file")),
        env=tuple(variables(overrides.env, "--env", environ)),
        secret=tuple(_secrets(variables(overrides.secret, "--secret", environ))),
        secret_files=tuple(_secrets(variable_files(overrides.secret_files, "--secret-file"))),
    )
    # A variable that is a secret in one task is a secret in all: they share the env file.
    secrets = {
        name
        for document in documents
        if isinstance(items := document.data.get("secrets"), Mapping)
        for name in items
    }
    first, *rest = documents
    if overrides.name is not None and (first.is_header or not rest):
        first = first.override(("name",), overrides.name, "--name")
    return [
        document
        if document.is_header
        else _with_values(_with_parts(document, overrides), values, secrets)
        for document in (first, *rest)
    ]


def _with_fields(document: Document, overrides: Overrides) -> Document:
    for flag in FLAGS:
        given = getattr(overrides, flag.name)
        if not flag.field or flag.name in _APART or given in (None, ()):
            continue

        value = _value(flag, given)
        field = tuple(flag.field.split("."))
        if flag.name == "priority" and isinstance(value, str):
            field = ("resources", "priority_class")
        document = document.override(field, value, flag.option)

        for replaced in _REPLACED.get(field[-1], ()):
            if document.get("resources", replaced) is not None:
                document = document.override(("resources", replaced), None, flag.option)
    return document


def _value(flag: Flag, given: object) -> object:
    """Return a value as in a task file; the schema refuses text that is no number."""
    if isinstance(given, tuple):
        return list(given)
    if flag.takes_none and str(given).lower() == "none":  # as in SkyPilot
        return None
    if flag.is_number and re.fullmatch("-?[0-9]{1,18}", str(given)):
        return int(str(given))
    return given


def _with_parts(document: Document, overrides: Overrides) -> Document:
    """Set the fields of flags, and what flags change a part of."""
    document = _with_fields(document, overrides)
    for item in overrides.sweep:
        name, equals, values = item.partition("=")
        if not equals:
            name, _, values = name.partition(":")
            hint = f"use --sweep {name}={values or '1..3'}"
            raise UserError(f"--sweep {item}: expected NAME=VALUE,VALUE", hint)
        document = document.override(("config", "kubectl_sky", "sweep", name), values, "--sweep")
    return _with_git(document, overrides)


def _with_git(document: Document, overrides: Overrides) -> Document:
    """Set the git repository; with only --git-ref, the URL of the file is kept."""
    flags = {"url": overrides.git_url, "ref": overrides.git_ref}
    for field, value in flags.items():
        if value is not None:
            flag = f"--git-{field}"
            if not isinstance(document.get("workdir"), dict):
                document = document.override(("workdir",), {}, flag)
            document = document.override(("workdir", field), value, flag)
    return document


def _with_values(document: Document, values: _Values, secrets: Set[str]) -> Document:
    """Add variables and secrets; a list of names of cluster Secrets becomes a map with both.

    Other items of the list are names only if a flag sets their values.
    """
    files = dict(values.files)
    of_envs = {name: value for name, value in files.items() if name not in secrets}
    of_secrets = dict(_secrets(item for item in files.items() if item[0] in secrets))
    document = _with_entries(document, "envs", of_envs, "--env-file")
    document = _with_entries(document, "envs", dict(values.env), "--env")

    listed = document.data.get("secrets")
    given = {
        Secret(name): name
        for name in chain(of_secrets, dict(values.secret), dict(values.secret_files))
    }
    if isinstance(listed, list) and given:
        names = [given.get(item, item) for item in listed]
        if all(isinstance(name, str) for name in names):
            document = document.override(("secrets",), dict.fromkeys(names), "--secret")

    document = _with_entries(document, "secrets", of_secrets, "--env-file")
    document = _with_entries(document, "secrets", dict(values.secret_files), "--secret-file")
    return _with_entries(document, "secrets", dict(values.secret), "--secret")


def _secrets(values: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Secret]]:
    return ((name, Secret(value)) for name, value in values)


def _with_entries(
    document: Document, field: str, values: Mapping[str, str | Secret], flag: str
) -> Document:
    return document.override_entries(field, values, flag) if values else document


def variables(
    assignments: tuple[str, ...], flag: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Parse `K=V`, or `K` for the variable of that name in the environment."""
    for item in assignments:
        name, equals, value = item.partition("=")
        if not equals:
            if name not in environ:
                reason = "no value, and no environment variable of this name"
                if flag == "--secret":  # what is written may be the value without a name
                    raise UserError(f"{flag}: {reason}", f"export NAME=VALUE, then {flag} NAME")
                name, _, value = name.replace(" ", ":", 1).partition(":")
                raise UserError(f"{flag} {item}: {reason}", f"use {flag} {name}={value or 'VALUE'}")
            value = environ[name]
            if not bounded.is_utf8(value):
                raise UserError(f"{flag} {name}: the variable is not UTF-8")
        yield name, value


def variable_files(paths: tuple[str, ...], flag: str) -> Iterator[tuple[str, str]]:
    """Read files of `K=V` lines with dotenv's rules, as SkyPilot does."""
    if paths:  # a tenth of a start, and few give files
        from dotenv import dotenv_values  # noqa: PLC0415
        from dotenv.parser import parse_stream  # noqa: PLC0415
    for path in paths:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{flag} {path}: is not UTF-8") from error
        except OSError as error:
            raise UserError(f"{flag} {path}: {bounded.reason(error)}") from error
        for name, value, (string, line), is_invalid in parse_stream(io.StringIO(text)):
            if is_invalid or (name and value is None):
                line += string[: -len(string.lstrip())].count("\n")
                # Do not quote the line: it may be part of a multi-line secret.
                hint = "put a value of several lines, or with a quote, in double quotes"
                raise UserError(f"{flag} {path}:{line}: expected NAME=VALUE", hint)
        values = dotenv_values(stream=io.StringIO(text, newline=None))
        yield from ((name, value) for name, value in values.items() if value is not None)
