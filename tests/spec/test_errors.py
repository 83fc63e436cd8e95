"""Exact texts of the errors of validate."""

import pytest

from tests.spec.documents import RUN, problems

WRONG = {
    "nmae: x": 'task.yaml:2:1: nmae: unknown field; did you mean "name"?',
    "resources:\n\u00a0 cpus: 1": (
        'task.yaml:3:1: "\ufffd cpus": unknown field; it begins with a no-break space (U+00A0),'
        " write a space"
    ),
    "env: {A: 1}": 'task.yaml:2:1: env: unknown field; did you mean "envs"?',
    "cpus: 4": "task.yaml:2:1: cpus: unknown field; it belongs under resources",
    "experimental: {}": (
        "task.yaml:2:1: experimental: unknown field; its new name is config; move the"
        " fields of config_overrides there"
    ),
    "resources: {acelerators: V100}": (
        "task.yaml:2:13: resources.acelerators: unknown field; did you mean"
        ' "accelerators"?'
    ),
    "resources: {num_nodes: 2}": (
        "task.yaml:2:13: resources.num_nodes: unknown field; it belongs at the top level"
    ),
    "resources: {spot_recovery: x}": (
        "task.yaml:2:13: resources.spot_recovery: unknown field; its new name is"
        " job_recovery"
    ),
    "resources: {hooks: []}": (
        "task.yaml:2:13: resources.hooks: unknown field; hooks belongs under config"
    ),
    "resources: [a]": (
        "task.yaml:2:12: resources: expected fields such as cpus: 4, got a list"
    ),
    "resources: {cpus: lots}": (
        'task.yaml:2:19: resources.cpus: CPUs are a number such as 2, 0.5, "4+" or'
        ' "500m", got "lots"'
    ),
    "resources: {cpus: -1}": "task.yaml:2:19: resources.cpus: must be more than 0, got -1",
    "resources: {memory: 16g}": (
        "task.yaml:2:21: resources.memory: memory is GiB such as 8, or has a unit:"
        ' "16GB", "512Mi", got "16g"'
    ),
    "resources: {memory: 16GiB}": (
        'task.yaml:2:21: resources.memory: the unit is Gi in Kubernetes: write "16Gi", got "16GiB"'
    ),
    "resources: {memory: $MEMORY}": (
        'task.yaml:2:21: resources.memory: memory is GiB such as 8, or has a unit: "16GB", "512Mi",'
        ' got "$MEMORY"; variables are not filled in here; write the value'
    ),
    "num_nodes: $NODES": (
        'task.yaml:2:12: num_nodes: expected a whole number of nodes, at least 1,'
        ' got "$NODES"; variables are not filled in here; write the value'
    ),
    "resources: {accelerators: 'A:B:8'}": (
        "task.yaml:2:27: resources.accelerators: expected a count such as 1, a name"
        ' such as V100, or both: "V100:2", got "A:B:8"'
    ),
    "resources: {accelerators: 'V100:0'}": (
        "task.yaml:2:27: resources.accelerators: the count must be more than 0, got"
        ' "V100:0"'
    ),
    "resources: {gpus: 1, accelerators: 1}": (
        "task.yaml:2:13: resources.gpus: is another name of accelerators; keep one of them"
    ),
    "resources: {job_recovery: failovr}": (
        "task.yaml:2:27: resources.job_recovery: expected one of FAILOVER,"
        " EAGER_NEXT_REGION, none, got 'failovr'; did you mean \"FAILOVER\"?"
    ),
    "resources: {infra: kubernets}": (
        "task.yaml:2:20: resources.infra: expected k8s, k8s/CONTEXT, or a SkyPilot"
        ' provider such as aws/us-east-1, got "kubernets"; did you mean "kubernetes"?'
    ),
    "resources: {infra: k8s, region: x}": (
        "task.yaml:2:25: resources.region: is the old form of infra; keep one of them"
    ),
    "resources: {disk_tier: hihg}": (
        "task.yaml:2:24: resources.disk_tier: expected one of low, medium, high, ultra,"
        ' best, got "hihg"; did you mean "high"?'
    ),
    "resources: {labels: {'a b': x}}": (
        'task.yaml:2:22: resources.labels."a b": is not a valid label: letters, digits, - _ .'
        " and at most 63 characters; such as team or example.com/team"
    ),
    "resources: {labels: {a: -5}}": (
        'task.yaml:2:25: resources.labels.a: "-5" is not a valid label value: letters, digits,'
        " - _ .; at most 63 characters, ends with a letter or digit"
    ),
    "resources: {priority: 2000}": (
        "task.yaml:2:23: resources.priority:"
        " expected a whole number of at least -1000 and at most 1000, got 2000"
    ),
    "resources: {any_of: [{cpus: 2}, {cpus: x}]}": (
        "task.yaml:2:40: resources.any_of[1].cpus: CPUs are a number such as 2, 0.5,"
        ' "4+" or "500m", got "x"'
    ),
    "resources: {any_of: [], ordered: []}": (
        "task.yaml:2:25: resources.ordered: any_of and ordered exclude each other;"
        " keep one of them"
    ),
    'num_nodes: "2"': (
        "task.yaml:2:12: num_nodes: expected a whole number of nodes, at least 1, got"
        ' "2"; write it without quotes'
    ),
    "num_nodes: 2.0": (
        "task.yaml:2:12: num_nodes: expected a whole number, without a decimal point"
    ),
    "num_nodes: 1000000000": (
        "task.yaml:2:12: num_nodes: more than 10,000 nodes are not supported"
    ),
    "name: 123": (
        "task.yaml:2:7: name: expected text such as my-task, got 123; put it in quotes"
    ),
    "name: yes": (
        "task.yaml:2:7: name: expected text such as my-task, got true;"
        " YAML reads yes so: put it in quotes"
    ),
    "setup: [a]": "task.yaml:2:8: setup: expected a script: setup: |, got a list",
    'setup: "a\\0b"': "task.yaml:2:8: setup: contains a NUL character, which no shell can read",
    "envs: {A-B: 1}": (
        "task.yaml:2:8: envs.A-B: expected a variable's name: letters, digits and _,"
        " no digit first"
    ),
    'envs: {"A\\n": 1}': (
        'task.yaml:2:8: envs."A\ufffd": expected a variable\'s name: letters, digits and _,'
        " no digit first"
    ),
    'envs: {A: "x\\0"}': (
        "task.yaml:2:11: envs.A: contains a NUL character"
    ),
    "envs: [A]": "task.yaml:2:7: envs: expected variables such as A: 1, got a list",
    "secrets: {'secrets:A': x}": (
        'task.yaml:2:24: secrets."secrets:A": a name that begins with secrets: refers'
        " to an existing secret; remove the value, or write A as the name"
    ),
    "secrets: hunter2": "task.yaml:2:10: secrets: expected variables such as TOKEN: null",
    "secrets: [hunter2]": (
        "task.yaml:2:11: secrets[0]: expected secrets:NAME for an existing Secret; for a value,"
        " write secrets: {NAME: null}"
    ),
    "file_mounts: {/a: {sorce: x}}": (
        'task.yaml:2:20: file_mounts./a.sorce: unknown field; did you mean "source"?'
    ),
    "file_mounts: {/a: 5}": (
        "task.yaml:2:19: file_mounts./a:"
        " expected a path, a URL such as s3://bucket, or a bucket's fields, got 5"
    ),
    "workdir: {ref: main}": "task.yaml:2:10: workdir: missing field \"url\"",
    "service: {replicas: 1, replica_policy: {min_replicas: 1}}": (
        "task.yaml:2:24: service.replica_policy: excludes replicas; keep one of them"
    ),
    "service: {readiness_probe: health}": (
        "task.yaml:2:28: service.readiness_probe: expected a path that begins with /"
    ),
    "service: {readiness_probe: {path: /, post_data: '{'}}": (
        "task.yaml:2:49: service.readiness_probe.post_data:"
        " expected JSON, or fields in place of text"
    ),
    "service: {replica_policy: {min_replicas: 1, max_replicas: 2}}": (
        "task.yaml:2:59: service.replica_policy.max_replicas: differs from min_replicas,"
        " which needs target_qps_per_replica;"
        " set it and use `serve up` with --qps-metric or --cpu-target, or make both equal"
    ),
    "service: {replica_policy: {min_replicas: 2, max_replicas: 1}}": (
        "task.yaml:2:59: service.replica_policy.max_replicas: is less than min_replicas, 2"
    ),
    "pool: {}": "task.yaml:2:7: pool: expected workers, or min_workers and max_workers",
    "config: {kubernetes: {custom_metadata: {name: x}}}": (
        "task.yaml:2:40: config.kubernetes.custom_metadata:"
        " expected labels and annotations, without name and namespace, got a map"
    ),
    "inputs: {a: 1, b: 2}": (
        "task.yaml:2:9: inputs:"
        " expected one URL with its size in GB: {s3://bucket/data: 10}, got a map"
    ),
    "on: push": (
        "task.yaml:2:1: a field's name is text, YAML reads this one as true; put it in quotes"
    ),
}  # fmt: skip


@pytest.mark.parametrize("field", WRONG)
def test_validate_error_has_expected_text(field: str) -> None:
    assert problems(RUN + field) == [WRONG[field]]
