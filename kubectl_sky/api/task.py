"""Tasks as Python values: from fields, or from a YAML file."""

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import yaml
from msgspec.structs import replace

from kubectl_sky.api.changes import Changes
from kubectl_sky.errors import InvalidFiles, Problem, UserError
from kubectl_sky.render import manifests
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.spec.load import MAX_BYTES
from kubectl_sky.submitting import render, taskfile, validate
from kubectl_sky.submitting.overrides import FLAGS, Overrides, Texts
from kubectl_sky.submitting.taskfile import Source
from kubectl_sky.tasks.ui import Collected
from kubectl_sky.words import bounded

_NO_FILE = "<task>"  # the file name in messages on a task that has no file


class TaskFields(TypedDict, total=False):
    """The fields of a task, with the meaning that they have in a task file."""

    name: str
    run: str
    setup: str
    num_nodes: int
    max_duration: str
    resources: Mapping[str, Any]
    workdir: str | Mapping[str, str]
    envs: Mapping[str, str | int | float | bool | None]
    secrets: Mapping[str, str | None] | Sequence[str]
    file_mounts: Mapping[str, Any]
    volumes: Mapping[str, Any]
    service: Mapping[str, Any]
    pool: Mapping[str, Any]
    event_callback: str
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Manifests:
    """Kubernetes objects in the order in which they are sent, as values and as a YAML stream."""

    objects: tuple[dict[str, Any], ...]
    yaml: str

    @classmethod
    def of(cls, rendered: manifests.Manifests) -> Self:
        """Return the objects of a task."""
        objects = tuple(manifest.object for manifest in rendered.all)
        return cls(objects, manifests.as_yaml(rendered.all))


@dataclass(frozen=True)
class Validation:
    """The errors and warnings of a task, and its fields that reach beyond it."""

    problems: tuple[Problem, ...]
    dangers: tuple[Danger, ...]

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not any(problem.severity == "error" for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON values that `kubectl sky validate -o json` prints."""
        dangers = [danger.report for danger in self.dangers]
        document = validate.Validation(valid=self.valid, problems=self.problems, dangers=dangers)
        return document.as_json()


@dataclass(frozen=True, init=False)
class Task:
    """A task, or the pipeline or group of a YAML file; `override` returns a changed copy.

        task = Task(name="train", run="python train.py", resources={"accelerators": "A100:8"})
        task = Task.from_yaml("train.yaml").override(env={"EPOCHS": "10"})

    Relative paths of local files start at the current folder.
    """

    file: str
    _text: bytes = field(repr=False)  # it may have the values of secrets
    _overrides: Overrides = field(repr=False)

    def __init__(self, **fields: Unpack[TaskFields]) -> None:
        """Build a task from its fields.

        Raises TypeError for unknown fields, and for values that YAML does not have.
        """
        for name in fields.keys() - TaskFields.__annotations__:
            similar = get_close_matches(name, TaskFields.__annotations__, 1)
            hint = f'; did you mean "{similar[0]}"?' if similar else ""
            raise TypeError(f'Task: unknown field "{name}"{hint}')
        try:
            text: str = yaml.dump(
                _plain(fields), Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True
            )
        except (yaml.representer.RepresenterError, RecursionError, UnicodeError) as error:
            raise TypeError(f"Task: {error}") from None
        self._set(text.encode(), _NO_FILE, Overrides())

    @classmethod
    def from_yaml(cls, source: str | os.PathLike[str]) -> Self:
        """Read a task file: a path, or the YAML itself as a string with a line break.

        Raises InvalidFiles if the file cannot be read; `validate` reports what is wrong in it.
        """
        if isinstance(source, str) and "\n" in source:
            return cls._of(source.encode(errors="surrogatepass"), _NO_FILE, Overrides())
        path = os.fspath(source)
        try:
            return cls._of(bounded.read(path, MAX_BYTES), path, Overrides())
        except OSError as error:
            reason = bounded.reason(error)
        except ValueError as error:  # a NUL character
            reason = str(error)
        raise InvalidFiles([Problem(path, 0, 0, "", f"cannot be read: {reason}")])

    @classmethod
    def _of(cls, text: bytes, file: str, overrides: Overrides) -> Self:
        task = cls.__new__(cls)
        task._set(text, file, overrides)
        return task

    def _set(self, text: bytes, file: str, overrides: Overrides) -> None:
        for name, value in (("_text", text), ("file", file), ("_overrides", overrides)):
            object.__setattr__(self, name, value)

    @property
    def yaml(self) -> str:
        """The task as YAML, without overrides; the positions of problems are positions in it."""
        return self._text.decode(errors="replace")

    def override(self, **changes: Unpack[Changes]) -> Self:
        """Return the task with other values, as the flags of `kubectl sky submit` set them.

        Raises UserError for a name that no variable can have, for a variable without a value, and
        for text that is not UTF-8.
        """
        values = dict(_values(changes, self._overrides))
        _check_utf8(values)
        return self._of(self._text, self.file, replace(self._overrides, **values))

    def validate(self) -> Validation:
        """Return what `submit` would report before it contacts a cluster: every problem at once."""
        ui = Collected()
        try:
            task_file = taskfile.prepare(self.source(), ui)
        except InvalidFiles as error:
            return Validation((*error.problems, *ui.warnings), tuple(ui.dangers))
        errors = validate.undecidable(task_file.entries, task_file.settings)
        return Validation((*errors, *ui.warnings), tuple(ui.dangers))

    def render(
        self, *, namespace: str | None = None, user: str | None = None, show_secrets: bool = False
    ) -> Manifests:
        """Return the manifests that `submit` would send, without a cluster.

        Secret values are redacted unless `show_secrets` is set. Raises InvalidFiles.
        """
        facts = render.offline_facts(user, namespace, os.environ)
        return Manifests.of(render.render_files([self.source()], facts, Collected(), show_secrets))

    def source(self) -> Source:
        """Return the task for the actions."""
        stdin = io.BytesIO(self._text)
        return Source(self.file, self._overrides, os.environ, stdin, in_memory=True)


def _values(changes: Mapping[str, Any], before: Overrides) -> Iterator[tuple[str, Any]]:
    """Yield the values of Overrides that the arguments of `Task.override` change."""
    flags = {flag.argument or flag.name: flag for flag in FLAGS}
    for argument, value in changes.items():
        if argument not in flags:
            similar = get_close_matches(argument, flags, 1)
            hint = f'; did you mean "{similar[0]}"?' if similar else ""
            raise TypeError(f'Task.override: unknown argument "{argument}"{hint}')

        flag = flags[argument]
        if value is None and (flag.is_map or flag.type == Texts):
            raise UserError(f"{argument}: a value is required", "leave it out, or give values")
        if flag.is_map:
            yield flag.name, (*getattr(before, flag.name), *_variables(argument, value))
        elif flag.type == Texts:  # a string is one value, not several letters
            several = [value] if isinstance(value, str | int | os.PathLike) else value
            yield flag.name, tuple(map(str, several))
        else:
            if value is not None and flag.choices and value not in flag.choices:
                expected = f"{', '.join(flag.choices[:-1])} or {flag.choices[-1]}"
                raise UserError(f'{argument}: expected {expected}, got "{value}"')
            yield flag.name, _text(value)


def _text(value: object) -> object:
    """Return a number or a path as the text of a flag."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number or isinstance(value, os.PathLike) else value


def _variables(name: str, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield variables in the form of the flags. Raises UserError."""
    for key, value in values.items():
        if "=" in str(key):
            raise UserError(f'{name}: no variable has "=" in its name')
        if value is None:
            raise UserError(f'{name}: the value of "{key}" is not set')
        yield f"{key}={value}"


def _check_utf8(values: Mapping[str, Any]) -> None:
    """Raise UserError for a text that no manifest can hold."""
    for name, value in values.items():
        texts = value if isinstance(value, tuple) else (value,)
        if not all(bounded.is_utf8(text) for text in texts if isinstance(text, str)):
            raise UserError(f"{name}: the value is not UTF-8")


def _plain(value: object) -> object:
    """Return a value with plain dicts, lists and strings, which are what the YAML writer takes."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return os.fspath(value) if isinstance(value, Path) else value
