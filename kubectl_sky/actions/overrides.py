"""Flags that override a task file; no imports, to keep --help fast."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Overrides:
    """The values of the flags; None and empty values keep those of the file."""

    task_id: str | None = None
    name: str | None = None
    workdir: str | None = None
    env: tuple[str, ...] = ()
    env_files: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    secret_files: tuple[str, ...] = ()
    num_nodes: str | None = None
    cpus: str | None = None
    memory: str | None = None
    gpus: str | None = None
    image: str | None = None
    backend: str | None = None
    queue: str | None = None
    ports: tuple[str, ...] = ()
    expose: str | None = None
    array: str | None = None
    bucket_mode: str | None = None
    templates: str | None = None
    as_task: bool = False
