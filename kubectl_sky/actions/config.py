"""Read and check the settings file; `config` shows and changes it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import yaml
from msgspec import Struct

from kubectl_sky import __version__
from kubectl_sky.errors import InvalidFiles, Problem, UnknownName, UserError
from kubectl_sky.spec import edit, explain
from kubectl_sky.spec.load import MAX_BYTES, load
from kubectl_sky.spec.schema import describe
from kubectl_sky.spec.validate import validate
from kubectl_sky.words import private, settings
from kubectl_sky.words.documents import AnyJson, Document, Note

_SCHEMA = f"https://github.com/kubectl-sky/kubectl-sky/raw/v{__version__}/schemas/settings.json"
_HEADER = f"# yaml-language-server: $schema={_SCHEMA}\n"
DEFAULT = "default"
ENVIRONMENT = "environment"
_VARIABLES = (
    "KUBECTL_SKY_SERVER",
    "K8S_CLI_API_URL",
    "KUBECTL_SKY_CONFIG_HOME",
    "KUBECTL_SKY_CACHE_HOME",
    "KUBECTL_SKY_STATE_HOME",
    "KUBECONFIG",
)


class Setting(Struct, frozen=True):
    """A setting, or an environment variable that is set."""

    name: str
    value: Annotated[AnyJson, Note("as in the file")]
    source: Annotated[str, Note("`FILE:LINE`, `default` or `environment`")]


class Settings(Document, frozen=True, kw_only=True):
    """The settings: `config view`."""

    settings: list[Setting]


def view(environ: Mapping[str, str]) -> list[Setting]:
    """Return the settings that are set or have a default, and environment variables that are set.

    Raises InvalidFiles for an invalid settings file.
    """
    variables = [
        Setting(name, _without_password(environ[name]), ENVIRONMENT)
        for name in _VARIABLES
        if environ.get(name)
    ]
    return [*_settings(environ), *variables]


def _settings(environ: Mapping[str, str]) -> Iterator[Setting]:
    preferences(environ)  # reports all problems of the file
    path = settings.settings_file(environ)
    documents = load(_text(path).encode(), str(path), example="image: …", optional=True)
    data = documents[0].data if documents else {}
    for field in explain.explain("settings").fields():
        name = field.path[-1]
        if data.get(name) is not None:
            line = documents[0].position((name,), key=True)[0]
            yield Setting(name, data[name], f"{path}:{line}")
        elif "default" in field.rules:
            yield Setting(name, field.rules["default"], DEFAULT)


def _without_password(text: str) -> str:
    if "@" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return "an invalid URL"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def get(key: str, environ: Mapping[str, str]) -> Any:
    """Return a setting, or its default; None if it has none. Raises UnknownName."""
    steps = _steps(key)
    value: Any = next((item.value for item in _settings(environ) if item.name == steps[0]), None)
    for step in steps[1:]:
        value = value.get(step) if isinstance(value, dict) else None
    field = explain.explain(f"settings.{key}")
    return field.rules.get("default") if value is None else value


def put(key: str, text: str, environ: Mapping[str, str]) -> Path:
    """Set a setting to a value in YAML, and return the path of the file.

    Raises UnknownName, and UserError if the value is invalid or the file cannot be edited.
    """
    steps = _steps(key)
    if not text.isprintable():  # no setting has lines or control characters
        raise UserError(f"{key}: the value must be one line of text")
    field = explain.explain(f"settings.{key}")
    try:
        value = text if field.types == "string" else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date such as 2001-99-99
        raise UserError(f"{key}: invalid YAML: {describe(text)}") from None
    path = settings.settings_file(environ)
    return _write(path, key, edit.put, _text(path) or _HEADER, steps, value)


def unset(key: str, environ: Mapping[str, str]) -> Path:
    """Remove a setting from the file, and return its path. Raises UnknownName if it is not set."""
    steps = _steps(key)
    path = settings.settings_file(environ)
    preferences(environ)
    data = yaml.safe_load(_text(path)) or {}
    for step in steps:
        data = data.get(step) if isinstance(data, dict) else None
    if data is None:
        raise UserError(f"{key} is not set in {path}")
    return _write(path, key, edit.remove, _text(path), steps)


def _steps(key: str) -> list[str]:
    """Return the path of a setting. Raises UnknownName with a similar one."""
    steps = key.split(".")
    if not all(steps) or explain.ANY in steps:
        raise UserError(f"invalid setting {describe(key)}", "run `kubectl sky explain settings`")
    try:
        explain.explain(f"settings.{key}")
    except UnknownName as error:
        hint = error.hint.replace('"settings.', '"')
        raise UnknownName(f'setting "{key}" not found', hint) from None
    return steps


def _write(path: Path, key: str, change: Any, text: str, *arguments: Any) -> Path:
    read(text.encode(), str(path))
    try:
        edited = change(text, *arguments)
    except edit.EditRefused as error:
        raise UserError(f"{path}: {error}", f"edit {key} by hand") from None

    read(edited.encode(), str(path))
    try:
        target = path.resolve()
        if not path.parent.exists():
            private.Folder(path.parent).create()
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
        private.replace(target, edited.encode(), mode)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UserError(f"{path}: cannot be written: {reason}") from None
    return path


def _text(path: Path) -> str:
    """Return the settings file; "" if it does not exist."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        preferences({**os.environ, "KUBECTL_SKY_CONFIG_HOME": str(path.parent)})
        raise InvalidFiles([]) from None


def preferences(environ: Mapping[str, str] = os.environ) -> settings.Settings:
    """Read `settings.yaml`; return the defaults if it does not exist.

    Raises InvalidFiles with all problems of the file.
    """
    path = settings.settings_file(environ)
    try:
        text = private.read(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return settings.Settings()
    except private.Unsafe as error:
        hint = "remove it, or change its owner to you"
        raise InvalidFiles([Problem(str(path), 0, 0, "", error.reason, hint)]) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidFiles([Problem(str(path), 0, 0, "", f"cannot be read: {reason}")]) from error
    return read(text, str(path))


def read(text: bytes, file: str) -> settings.Settings:
    """Parse the bytes of a settings file. Raises InvalidFiles."""
    documents = load(text, file, example="image: …", optional=True)
    problems = [problem for document in documents for problem in validate(document, "settings")]
    problems += [
        document.problem((), "settings must be a single document") for document in documents[1:]
    ]
    if problems:
        raise InvalidFiles(problems)
    fields = documents[0].data if documents else {}
    values: dict[str, Any] = {
        # YAML may read a priority as a number.
        name: {str(key): item for key, item in value.items()} if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }
    return settings.Settings(**values)
