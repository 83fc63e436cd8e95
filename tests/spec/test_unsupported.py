"""Unsupported fields are refused or ignored with a reason."""

import json
from functools import cache
from typing import Any

import pytest

from kubectl_sky.spec.task import task_of
from kubectl_sky.spec.unsupported import as_task, list_fields, refusals
from kubectl_sky.spec.validate import validate
from kubectl_sky.words import assets
from tests.spec.documents import make_document, read

Path = tuple[str, ...]


@cache
def texts() -> dict[str, Any]:
    names = ("config", "resources", "service", "storage", "task", "volume")
    found = {f"{name}.json": json.loads(assets.read("schemas", f"{name}.json")) for name in names}
    return found | {"pod.json": {}}  # merged as is


def properties(file: str, node: Any, path: Path, seen: tuple[str, ...] = ()) -> set[Path]:
    """Return the paths of all properties below a schema node; `*` is any name or item."""
    schemas = texts()
    found: set[Path] = set()
    if not isinstance(node, dict):
        return found

    if "$ref" in node:
        reference = node["$ref"]
        target, _, pointer = reference.partition("#")
        key = f"{file}{reference}"
        file = target or file
        if key in seen:
            return found
        node = schemas[file]
        seen = (*seen, key)
        for step in pointer.strip("/").split("/") if pointer else []:
            node = node[step]

    for name, below in node.get("properties", {}).items():
        found |= {(*path, name)} | properties(file, below, (*path, name), seen)
    for alternative in node.get("anyOf", []):
        found |= properties(file, alternative, path, seen)
    for keyword in ("additionalProperties", "items"):
        found |= properties(file, node.get(keyword), (*path, "*"), seen)
    return found


def once(path: Path) -> Path:
    """Return the field of resources for a field of a candidate."""
    fields = {("resources", "any_of", "*"), ("resources", "ordered", "*")}
    return ("resources", *path[3:]) if path[:3] in fields else path


def test_every_unsupported_field_exists_and_is_listed_once() -> None:
    known = {once(path) for path in properties("task.json", texts()["task.json"], ())}
    assert len(known) > 150
    fields = [entry.field for entry in list_fields()]
    assert len(fields) == len(set(fields))
    for field in fields:
        assert any(field == path[: len(field)] for path in known), f"no such field: {field}"


def refusal_messages(text: str) -> list[str]:
    return [str(problem) for document in read(text) for problem in refusals(document)]


REFUSED = {
    "resources: {image_id: {us-east-1: x, us-west-2: y}, infra: k8s/eu-west-1}": (
        "task.yaml:2:13: resources.image_id: not supported:"
        " the cluster is in none of these regions; name one image"
    ),
    "resources: {any_of: [{cpus: 1}, {volumes: [{path: /a}]}]}": (
        "task.yaml:2:34: resources.any_of[1].volumes: not supported: it is about disks of"
        " GCP machines; write volumes at the top level"
    ),
    "resources: {ordered: [{image_id: {us-east-1: x, us-west-2: y}}]}": (
        "task.yaml:2:24: resources.ordered[0].image_id: not supported:"
        " the cluster is in none of these regions; name one image"
    ),
    "resources: {priority_class: High}": (
        "task.yaml:2:13: resources.priority_class: not supported: invalid name of a"
        " PriorityClass; use lowercase letters, digits, - and ."
    ),
    "config: {kubernetes: {enable_docker: true}}": (
        "task.yaml:2:23: config.kubernetes.enable_docker: not supported:"
        " a task has no Docker daemon; remove it; docker build becomes buildctl-daemonless.sh build"
        " in the image moby/buildkit:rootless, as docs/environment.md shows; docker run is not"
        " possible"
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", REFUSED)
def test_unsupported_field_is_refused_and_warned(field: str) -> None:
    text = "run: x\n" + field
    assert refusal_messages(text) == [REFUSED[field]]
    warned = [p for document in read(text) for p in validate(document)]
    assert [p.severity for p in warned] == ["warning"]
    assert "not supported, submit rejects it: " in warned[0].message


ACCEPTED = (
    "resources: {use_spot: true, disk_size: 100, infra: aws, ports: 80, autostop: 10}",
    "config: {kubernetes: {enable_docker: false}, gcp: {vpc_name: x}}",
    "workdir: ",
    "secrets: ['secrets:TOKEN', 'secrets:personal.X']",
    "secrets: {'secrets:TOKEN': , A: b}",
    "managed_secrets: [TOKEN, {my-token: {mount_path: ~/x}}]",
    "resources: {accelerators: {A100:1}}",
    "resources: {accelerators: {A100: 1, V100: 1}}",
    "resources: {any_of: [{cpus: 1}, {cpus: 2, disk_tier: low}]}",
    "volumes: {/a: {name: v, labels: {a: b}}}",
    "volumes: {/a: {size: 1Gi}, ~/b: {name: v, mode: ro}, /c: {host_path: /mnt}}",
)


@pytest.mark.parametrize("field", ACCEPTED)
def test_supported_field_is_accepted(field: str) -> None:
    assert refusal_messages("run: x\n" + field) == []


@pytest.mark.parametrize("text", ["name: x\n", "setup: x\n", "run: ''\n", "resources: {cpus: 1}\n"])
def test_task_without_run_is_accepted(text: str) -> None:
    assert refusal_messages(text) == []
    assert [problem for document in read(text) for problem in validate(document)] == []


def test_header_is_no_task() -> None:
    header, task = read("name: p\n---\nrun: x\n")
    assert refusals(task) == []
    assert validate(header) + validate(task) == []


SERVICE = "run: serve\nresources: {ports: 8080}\nservice: {readiness_probe: /, replicas: 3}\n"
POOL = "setup: x\npool: {workers: 2}\n"


@pytest.mark.parametrize("text", [SERVICE, POOL])
def test_service_or_pool_is_refused_unless_as_task(text: str) -> None:
    (document,) = read(text)
    assert any("--as-task runs one" in line for line in refusal_messages(text))
    rejected = any("submit rejects it" in p.message for p in validate(document))
    assert rejected is (text is POOL), "validate checks a service for `serve`"
    assert validate(document, as_task=True) == []
    task, notes = as_task(document)
    assert refusals(task, as_task=True) == []
    assert "run as one task: one " in notes[0]


def test_as_task_converts_service_and_pool() -> None:
    (service,) = read(SERVICE)
    (pool,) = read(POOL)
    assert task_of(as_task(service)[0]).envs == {"SKYPILOT_SERVE_REPLICA_ID": "1"}
    idle, notes = as_task(pool)
    assert task_of(idle).run == ":\n"
    assert notes[1] == "the task has no run, so it ends after setup"
    task = make_document()
    assert as_task(task) == (task, [])


def test_as_task_invalid_service_is_error() -> None:
    (document,) = read("run: x\nservice: {readiness_probe: health, replicas: 1}\n")
    assert [p.severity for p in validate(document, as_task=True)] == ["error"]
    (nothing,) = read("service: {readiness_probe: /, replicas: 1}\n")
    refused = refusals(as_task(nothing)[0], as_task=True)
    assert [p.message for p in refused] == ["a service needs run"]


def test_volume_file_is_refused_with_hint() -> None:
    assert refusal_messages("name: v\ntype: k8s-pvc\nsize: 1Gi\n") == [
        "task.yaml:1:1: not supported: this is a volume, not a task;"
        " create it with kubectl sky volumes apply"
    ]


def test_validate_service_reports_how_tasks_end() -> None:
    document = make_document(
        name="web",
        resources={
            "ports": 80,
            "autostop": {"down": True},
            "job_recovery": {"max_restarts_on_errors": 1},
        },
        service={"readiness_probe": "/"},
        config={"kubernetes": {"pod_config": {"spec": {"activeDeadlineSeconds": 60}}}},
    )

    assert sorted((problem.path, problem.message) for problem in validate(document)) == [
        (
            "config.kubernetes.pod_config.spec.activeDeadlineSeconds",
            "not supported, serve rejects it: the pods of a Deployment have no deadline",
        ),
        ("resources.autostop", "ignored: a service runs until it is deleted"),
        ("resources.job_recovery", "ignored: a Deployment always restarts its replicas"),
    ]
