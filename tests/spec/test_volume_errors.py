"""Exact texts of the errors of validate for volumes."""

import pytest

from tests.spec.documents import RUN, problems

WRONG = {
    "volumes: {data: v}": (
        "task.yaml:2:11: volumes.data: expected an absolute path such as /data"
    ),
    "volumes: {/a/: v}": "task.yaml:2:11: volumes./a/: a mount path does not end with /",
    "volumes: {/a//b: v}": "task.yaml:2:11: volumes./a//b: a mount path has no empty parts",
    "volumes: {/a/../b: v}": (
        'task.yaml:2:11: volumes."/a/../b": a mount path cannot hold . or ..'
    ),
    "volumes: {'/a:b': v}": (
        'task.yaml:2:11: volumes."/a:b": a mount path cannot hold a colon'
    ),
    "volumes: {/etc/kubectl-sky/x: v}": (
        "task.yaml:2:11: volumes./etc/kubectl-sky/x:"
        " the task's scripts and files are in this folder"
    ),
    "volumes: {/a: 5}": (
        "task.yaml:2:15: volumes./a:"
        " expected a volume's name, or {name: …, sub_path: …}, got 5"
    ),
    "volumes: {/a: {sub_path: b}}": (
        'task.yaml:2:15: volumes./a: missing field "name"; such as {name: my-volume,'
        " sub_path: runs/1}"
    ),
    "volumes: {/a: {name: v, sub_path: ../b}}": (
        "task.yaml:2:35: volumes./a.sub_path: a path within a volume cannot hold .."
    ),
    "volumes: {~: v}": (
        "task.yaml:2:11: volumes: a field's name is text, YAML reads this one as nothing;"
        " put it in quotes"
    ),
    "volumes: {/a: {name: v, size: 1Gi}}": (
        "task.yaml:2:25: volumes./a.size: name and size exclude each other; keep one of them"
    ),
    "volumes: {/a: {size: 1, config: {storage_class_name: Fast_SSD}}}": (
        'task.yaml:2:54: volumes./a.config.storage_class_name: "Fast_SSD" is not a valid'
        " StorageClass name: use lowercase letters, digits, - and ."
    ),
    "volumes: {/a: {host_path: data}}": (
        "task.yaml:2:27: volumes./a.host_path: expected an absolute path such as /data"
    ),
    "volumes: {/a: {size: 1Gi, labels: {'!': b}}}": (
        "task.yaml:2:36: volumes./a.labels.\"!\": is not a valid label: letters, digits, - _ ."
        " and at most 63 characters; such as team or example.com/team"
    ),
    "volumes: {/a: {name: v, subpath: b}}": (
        'task.yaml:2:25: volumes./a.subpath: unknown field; did you mean "sub_path"?'
    ),
    "volumes: {/a: 'my volume'}": (
        "task.yaml:2:15: volumes./a: \"my volume\" is not a valid volume name:"
        " use letters, digits, - and ."
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
def test_validate_volume_error_has_expected_text(field: str) -> None:
    assert problems(RUN + field) == [WRONG[field]]
