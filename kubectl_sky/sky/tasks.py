"""Tasks that change in place, their resources and buckets, and graphs of tasks."""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from enum import Enum
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, Self

import yaml

from kubectl_sky.api.task import Task as File
from kubectl_sky.sky.exceptions import NotSupportedError
from kubectl_sky.sky.states import DagExecution, StorageMode
from kubectl_sky.spec.load import load
from kubectl_sky.spec.schema import fields as names_of

__all__ = ["Dag", "Resources", "Storage", "Task"]

_DAG = ContextVar["Dag | None"]("dag", default=None)
_MAPS = ("envs", "secrets", "file_mounts", "storage_mounts", "volumes")
_FOR_OPTIMIZER = ("inputs", "outputs", "time_estimator")


class Fields:
    """Fields of a task file, as attributes; None if not set. A submit reports unknown ones."""

    _schema = "task"

    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)

    def __getattr__(self, name: str) -> Any:
        if name in names_of(self._schema):
            return None
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[name] = value  # for type checkers: every field can be set

    @classmethod
    def from_yaml_config(cls, config: Mapping[str, Any]) -> Self:
        return cls(**config)

    def to_yaml_config(self) -> dict[str, Any]:
        items = {name: _plain(value) for name, value in vars(self).items() if name[0] != "_"}
        return {name: value for name, value in items.items() if value not in (None, {}, [])}


class Resources(Fields):
    """What a node requests."""

    _schema = "resources"

    def __init__(self, cloud: Any = None, instance_type: Any = None, **fields: Any) -> None:
        super().__init__(cloud=cloud, instance_type=instance_type, **fields)

    def copy(self, **override: Any) -> "Resources":
        return Resources(**{**vars(self), **override})


class Storage(Fields):
    """A bucket."""

    _schema = "storage"

    def __init__(self, name: str | None = None, source: Any = None, **fields: Any) -> None:
        super().__init__(**{"name": name, "source": source, "mode": StorageMode.MOUNT, **fields})
        for store in vars(self).pop("stores", None) or ():
            self.add_store(store)

    def add_store(self, store_type: Any) -> None:
        self.store = str(getattr(store_type, "value", store_type)).lower()


class Task(Fields):
    """A task, also of the open Dag. `set_F` replaces the field F, `update_F` extends a map."""

    def __init__(self, name: str | None = None, **fields: Any) -> None:
        maps = {field: dict(fields.get(field) or {}) for field in _MAPS}
        super().__init__(name=name, **{**fields, **maps})
        self.set_resources(fields.get("resources") or {})
        if dag := _DAG.get():
            dag.add(self)

    @classmethod
    def from_yaml(cls, yaml_path: str | os.PathLike[str]) -> Self:
        """Read the file of one task. Raises InvalidFiles, also with the place of a syntax error."""
        file = File.from_yaml(Path(yaml_path).expanduser())
        return cls.from_yaml_str(file.yaml, file.file)

    @classmethod
    def from_yaml_str(cls, yaml_str: str, _file: str = "<task>") -> Self:
        if len(load(yaml_str.encode(), _file)) > 1:
            raise NotSupportedError("a file of several tasks", "use `kubectl_sky.Task.from_yaml`")
        return cls(**yaml.safe_load(yaml_str))

    def __getattr__(self, name: str) -> Any:
        verb, _, field = name.partition("_")
        if field not in (*names_of(self._schema), *_MAPS, *_FOR_OPTIMIZER):
            return super().__getattr__(name)
        if verb == "set":
            return partial(self._set, field)
        if verb == "get":
            return partial(getattr, self, field)
        return partial(self._update, field) if verb == "update" else super().__getattr__(name)

    def set_resources(self, resources: Any) -> Self:
        """Set what a node requests: one, a set of alternatives, or a list in order."""
        if isinstance(resources, Mapping) or not resources:
            resources = Resources(**(resources or {}))
        self.resources = {resources} if isinstance(resources, Resources) else resources
        return self

    def set_resources_override(self, override_params: Mapping[str, Any]) -> Self:
        kind = type(self.resources)
        return self.set_resources(kind(item.copy(**override_params) for item in self.resources))

    def _set(self, field: str, value: Any, *sizes: float, **options: float) -> Self:
        if field not in _FOR_OPTIMIZER:
            vars(self)[field] = value or ({} if field in _MAPS else None)
        return self

    def _update(self, field: str, values: Any) -> Self:
        return self._set(field, {**getattr(self, field), **dict(values or {})})

    def to_yaml_config(self) -> dict[str, Any]:
        config = super().to_yaml_config()
        mounts = {**config.pop("file_mounts", {}), **config.pop("storage_mounts", {})}
        config |= {"file_mounts": mounts} if mounts else {}
        for field in {"setup", "run"} & config.keys():
            lines = config[field]
            config[field] = lines if isinstance(lines, str) else "\n".join(lines)
        alternatives = [item.to_yaml_config() for item in self.resources]
        key = "ordered" if isinstance(self.resources, list) else "any_of"
        config["resources"] = {key: alternatives} if len(alternatives) > 1 else alternatives[0]
        return {name: value for name, value in config.items() if value != {}}

    def __rshift__(self, op: "Task") -> "Task":
        if dag := _DAG.get():
            dag.add_edge(self, op)
            return op
        raise NotSupportedError("a >> b: write it inside `with sky.Dag() as dag:`")


class Dag(Fields):
    """A pipeline, or with DagExecution.PARALLEL a group, of the tasks that are made inside it."""

    _schema = "header"

    def __init__(self, **fields: Any) -> None:
        super().__init__(execution=DagExecution.SERIAL, **fields)
        self.tasks: list[Task] = []
        self._next: dict[Task, Task] = {}

    def __enter__(self) -> Self:
        self._before = _DAG.set(self)
        return self

    def __exit__(self, *details: object) -> None:
        _DAG.reset(self._before)

    def add(self, task: Task) -> None:
        self.tasks += [] if task in self.tasks else [task]

    def add_edge(self, op1: Task, op2: Task) -> None:
        self._next[op1] = op2

    def set_execution(self, execution: Any) -> None:
        self.execution = DagExecution(execution)

    def to_yaml_configs(self) -> list[dict[str, Any]]:
        """Return the documents of a task file: a header if there are several, and the tasks.

        Raises NotSupportedError if the tasks are neither a chain nor a group.
        """
        first = [task for task in self.tasks if task not in self._next.values()]
        chain = first[:1]
        while chain and chain[-1] in self._next and len(chain) <= len(self.tasks):
            chain.append(self._next[chain[-1]])
        is_group = self.execution is DagExecution.PARALLEL
        if not is_group and len(chain) != len(self.tasks):
            raise NotSupportedError("the tasks of a Dag are one chain, or a group: PARALLEL")

        order = self.tasks if is_group else chain
        if not order:
            raise NotSupportedError("the Dag has no task")
        configs = [task.to_yaml_config() for task in order]
        others = {
            name: value for name, value in vars(self).items() if name in names_of(self._schema)
        }
        header = Fields(**{"name": configs[0].get("name"), **others})
        return [header.to_yaml_config(), *configs] if len(configs) > 1 else configs


def documents_of(task: Task | Dag) -> list[dict[str, Any]]:
    return task.to_yaml_configs() if isinstance(task, Dag) else [task.to_yaml_config()]


def document_of(task: Task | Dag) -> dict[str, Any]:
    """Return the document of the only task. Raises NotSupportedError."""
    documents = documents_of(task)
    if len(documents) > 1:
        raise NotSupportedError("only one task is supported", "use `sky.jobs.launch` for several")
    return documents[0]


def _plain(value: Any) -> Any:
    """Return a value as YAML has it."""
    match value:
        case Fields():
            return value.to_yaml_config()
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case set():
            return dict.fromkeys(value)
        case list() | tuple():
            return [_plain(item) for item in value]
        case Enum():
            return value.value
        case Path():
            return str(value)
        case FunctionType():
            raise NotSupportedError("setup or run is a function: write a script")
    return value
