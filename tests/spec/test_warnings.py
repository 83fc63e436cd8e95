"""Exact texts of the warnings of validate, and valid fields."""

import pytest

from tests.spec.documents import RUN, found_in, problems

WARNED = {
    "name: my task": (
        "task.yaml:2:7: name: warning: in names of objects, dashes replace what"
        " Kubernetes does not allow"
    ),
    "name: \N{LEFT DOUBLE QUOTATION MARK}train\N{RIGHT DOUBLE QUOTATION MARK}": (
        "task.yaml:2:7: name: warning: the typographic quotes are part of the text;"
        ' write " or leave them out'
    ),
    "resources: {accelerators: 0.5}": (
        "task.yaml:2:27: resources.accelerators: warning: fractions of GPUs are not"
        " supported; each node gets 1"
    ),
    "envs: {X: yes}": (
        'task.yaml:2:11: envs.X: warning: YAML reads this as "True"; the task gets that value;'
        " put it in quotes"
    ),
    "secrets: {X: 12:30}": (
        "task.yaml:2:14: secrets.X: warning: YAML reads this as something else;"
        " the task gets that value; put it in quotes"
    ),
    "envs: {NO: x}": (
        'task.yaml:2:8: envs.False: warning: YAML reads this name as "False"; the variable has'
        " that name; put it in quotes"
    ),
    "envs: {X: [1]}": (
        "task.yaml:2:11: envs.X: warning: the task gets this in Python's notation;"
        " write text, such as JSON in quotes"
    ),
    "envs: {NODE_RANK: 5}": (
        "task.yaml:2:8: envs.NODE_RANK: warning: ignored: every node sets its own value"
    ),
    "volumes: {/usr: v}": (
        "task.yaml:2:11: volumes./usr: warning: hides the image's own /usr,"
        " without which containers rarely start"
    ),
    "config: {kubernetes: {kuee: {}}}": (
        "task.yaml:2:23: config.kubernetes.kuee: warning: unknown field, ignored; did"
        ' you mean "kueue"?'
    ),
    "file_mounts: {/v: {source: s3://box/b, config: {mounts: {read_only: true}}}}": (
        "task.yaml:2:49: file_mounts./v.config.mounts: warning: unknown field, ignored;"
        ' did you mean "mount"?'
    ),
    "resources: {instance_type: p4d.24xlarge}": (
        "task.yaml:2:13: resources.instance_type: warning: ignored: the cluster chooses the nodes;"
        " use cpus, memory and accelerators"
    ),
    "resources: {job_recovery: failover}": (
        "task.yaml:2:27: resources.job_recovery: warning: ignored: there is one cluster, and"
        " nowhere else to go; a node that is taken away starts again here"
    ),
    "resources: {job_recovery: {recover_on_exit_codes: [0, 1]}}": (
        "task.yaml:2:52: resources.job_recovery.recover_on_exit_codes[0]: warning: ignored:"
        " what ends with 0 has not failed"
    ),
    "resources: {job_recovery: {strategy: none, max_restarts_on_errors: 1}}": (
        "task.yaml:2:44: resources.job_recovery.max_restarts_on_errors: warning: ignored: with the"
        " strategy none nothing starts again; leave strategy out"
    ),
    "resources: {infra: aws/us-east-1}": (
        "task.yaml:2:13: resources.infra: warning: ignored: the task runs in kubectl's context;"
        " choose another with --context or infra: k8s/CONTEXT"
    ),
    "resources: {disk_size: 100, ephemeral_storage: 50}": (
        "task.yaml:2:29: resources.ephemeral_storage: warning: ignored: disk_size is set"
    ),
    "resources: {any_of: [{infra: aws/us-east-1, disk_tier: low}, {cloud: gcp, image_id: {a: b}},"
    " {infra: k8s}]}": (
        "task.yaml:2:13: resources.any_of: warning: 2 ignored, the task runs in kubectl's context:"
        " aws, gcp; choose another with --context or infra: k8s/CONTEXT"
    ),
    "resources: {autostop: 10}": (
        "task.yaml:2:13: resources.autostop: warning: ignored: the task ends when run"
        " ends, so it is never idle; add down: true to delete the finished task"
    ),
    "resources: {autostop: {down: true, hook: x}}": (
        "task.yaml:2:36: resources.autostop.hook: warning: ignored: no script runs"
        " before a finished task is deleted; put it at the end of run"
    ),
    "resources: {memory: 0755}": (
        "task.yaml:2:21: resources.memory: warning: YAML reads 0755 as an octal number: 493;"
        " write that number, or quote it if it is text"
    ),
    "num_nodes: 010": (
        "task.yaml:2:12: num_nodes: warning: YAML reads 010 as an octal number: 8;"
        " write that number, or quote it if it is text"
    ),
    "resources: {cpus: 1:30}": (
        "task.yaml:2:19: resources.cpus: warning: YAML reads 1:30 as a number in base 60: 90;"
        " write that number, or quote it if it is text"
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", WARNED)
def test_validate_warning_has_expected_text(field: str) -> None:
    assert problems(RUN + field, "warning") == [WARNED[field]]
    assert problems(RUN + field) == []


FINE = (
    "name: a.b_c-D",
    "num_nodes: 2",
    "resources:",
    "envs:",
    "volumes:",
    "resources: {cpus: , memory: }",
    "resources: {accelerators: {A100:8, V100:4}}",
    "resources: {cpus: 4+, memory: 8+, accelerators: 1}",
    "resources: {accelerators: 1}",
    "resources: {gpus: '1'}",
    "resources: {use_spot: true, disk_size: 512, priority_class: high}",
    "resources: {instance_type: 4CPU--16GB--H100:8, autostop: {down: true, idle_minutes: 5}}",
    "resources: {accelerators: {'A100:1'}}",
    "resources: {accelerators: {A100, 'V100:2': null}}",
    "resources: {cpus: 0.5}",
    "resources: {ordered: [{accelerators: L4}, {gpus: T4}], cpus: 1}",
    "resources: {infra: k8s}",
    "resources: {infra: Kubernetes}",
    "resources: {infra: k8s/my/context}",
    "resources: {cloud: kubernetes, region: my-context}",
    "resources: {infra: '*', any_of: [{infra: k8s/a}, {infra: k8s/b}]}",
    "resources: {cloud: kubernetes, use_spot: false, autostop: false}",
    "resources: {labels: {example.com/team: research, empty: ''}}",
    "envs: {A: 1, B: x, C: , D: 1.5, E: 2024-01-01}",
    "envs: {A: \N{LEFT DOUBLE QUOTATION MARK}hi\N{RIGHT DOUBLE QUOTATION MARK} and"
    " \N{LEFT DOUBLE QUOTATION MARK}bye\N{RIGHT DOUBLE QUOTATION MARK}}",
    "secrets: {A: , B: x}",
    "volumes: {/data: v, /more/data: {name: v, sub_path: runs/1}}",
    "config: {kubernetes: {pod_config: {spec: {volumes: [{name: v, configMap: {defaultMode: 0400,"
    " items: [{key: a, path: b, mode: 0755}]}}]}}}}",
    "envs: {V: data}\nvolumes: {/a: $V, '/${V}': v}",
)


@pytest.mark.parametrize("field", FINE)
def test_validate_valid_field_has_no_messages(field: str) -> None:
    assert found_in(RUN + field) == []
