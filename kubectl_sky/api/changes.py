"""The arguments of `Task.override`, made of the rows of submitting/overrides.py."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class Changes(TypedDict, total=False):
    """What `Task.override` changes: the flags of `kubectl sky submit`, with their meaning."""

    id: str
    name: str
    workdir: str
    git_url: str
    git_ref: str
    env: Mapping[str, str]
    env_files: Sequence[str]
    secret: Mapping[str, str]
    secret_files: Sequence[str]
    cpus: str
    memory: str
    gpus: str
    image: str
    disk_size: int | str
    use_spot: bool
    priority: int | str
    infra: str
    exclude_nodes: Sequence[str]
    queue: str
    ports: Sequence[str]
    expose: str
    backend: str
    bucket_mode: Literal["mount", "sync", "copy"]
    templates: str
    num_nodes: int | str
    max_duration: str
    gang: str
    hold: str
    array: str
    sweep: Mapping[str, str]
    sweep_limit: int | str
    as_task: bool
