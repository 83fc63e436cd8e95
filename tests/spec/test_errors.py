"""Exact texts of the errors of validate."""

import pytest

from tests.spec.documents import RUN, problems

WRONG = {
    "nmae: x": 'task.yaml:2:1: nmae: unknown field; did you mean "name"?',
    "resources:\n\u00a0 cpus: 1": (
        'task.yaml:3:1: "<U+00A0> cpus": unknown field; it begins with a no-break space (U+00A0),'
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
        ' "16GB", "512Mi", got "16g"; did you mean "16G"?'
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
        ' EAGER_NEXT_REGION, none, got "failovr"; did you mean "FAILOVER"?'
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
    "workdir: {ref: main}": "task.yaml:2:10: workdir: missing field \"url\";"
    " such as url: https://github.com/me/code.git",
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
        " set it, and --cpu-target to scale by CPU usage instead; or make both equal"
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
    "on: push": "task.yaml:2:1: unknown field, which YAML reads as true; remove it",
    "resources: {no: x}": (
        "task.yaml:2:13: resources: unknown field, which YAML reads as false; remove it"
    ),
    "resources: {labels: {on: x}}": (
        "task.yaml:2:22: resources.labels: a field's name is text, YAML reads this one as true;"
        " put it in quotes"
    ),
    "setup: ~\n  pip install x": (
        'task.yaml:2:8: setup: "~" is no value, and lines follow it; for a script, write setup: |'
    ),
    "setup: null\n  - pip install x": (
        'task.yaml:2:8: setup: "null" is no value, and lines follow it;'
        " for a script, write setup: |"
    ),
    "resources: {memory: 107374183}": (
        "task.yaml:2:21: resources.memory: more than a pebibyte, got 107374183;"
        ' a number is GiB; for bytes write "102Mi"'
    ),
    "resources: {memory: 107374182400+}": (
        'task.yaml:2:21: resources.memory: more than an exbibyte, got "107374182400+";'
        ' a number is GiB; for bytes write "102400Mi"'
    ),
    "resources: {disk_size: 1099511627776}": (
        "task.yaml:2:24: resources.disk_size: more than an exbibyte, got 1099511627776;"
        ' a number is GiB; for bytes write "1048576Mi"'
    ),
    "pod_config: {}": (
        "task.yaml:2:1: pod_config: unknown field; it belongs under config.kubernetes"
    ),
    "min_replicas: 1": (
        "task.yaml:2:1: min_replicas: unknown field; it belongs under service.replica_policy"
    ),
    "primary_tasks: [a]": (
        "task.yaml:2:1: primary_tasks: unknown field; it belongs in the header: a"
        " document before the tasks"
    ),
    "resources: {max_restarts_on_errors: 3}": (
        "task.yaml:2:13: resources.max_restarts_on_errors: unknown field;"
        " it belongs under resources.job_recovery"
    ),
    "resources: {use_spot: 'true'}": (
        'task.yaml:2:23: resources.use_spot: expected true or false, got "true"; write'
        " it without quotes"
    ),
    "resources: {accelerators: [8]}": (
        "task.yaml:2:28: resources.accelerators[0]: expected a GPU such as V100:2, got 8"
    ),
    "resources: {image_id: {docker: a, us-east-1: 'docker:b'}}": (
        "task.yaml:2:46: resources.image_id.us-east-1: is an image in addition to docker's;"
        " keep one of them"
    ),
    "resources: {ports: [80, 70000]}": (
        'task.yaml:2:25: resources.ports[1]: a port is from 1 to 65535, got "70000"'
    ),
    "resources: {ports: 90-80}": (
        'task.yaml:2:20: resources.ports: the range ends before it begins: "90-80";'
        ' did you mean "80-90"?'
    ),
    "resources: {ports: [80, 8000-8100]}": (
        "task.yaml:2:20: resources.ports: 102 ports; a task's Service has at most 100;"
        " name those that others connect to"
    ),
    "config: {kubectl_sky: {expose: NodePort}}": (
        "task.yaml:2:32: config.kubectl_sky.expose: expected one of clusterip,"
        ' nodeport, loadbalancer, podip, got "NodePort"; did you mean "nodeport"?'
    ),
    "config: {kubectl_sky: {step_regex: 'step ('}}": (
        "task.yaml:2:36: config.kubectl_sky.step_regex: no regular expression:"
        " missing ), unterminated subpattern at position 5"
    ),
    "config: {kubectl_sky: {step_regex: step}}": (
        "task.yaml:2:36: config.kubectl_sky.step_regex: expected one or two groups, the numbers"
        ' that count; it has 0; such as "round (\\d+)"'
    ),
    "config: {kubectl_sky: {logs: /logs}}": (
        'task.yaml:2:30: config.kubectl_sky.logs: "/logs" is not on a volume;'
        " add a volume, such as volumes: {/data: NAME}, and use a folder on it"
    ),
    "volumes: {/data: v}\nconfig: {kubectl_sky: {logs: /database}}": (
        'task.yaml:3:30: config.kubectl_sky.logs: "/database" is not on a volume;'
        " use a folder on a volume: /data"
    ),
    "volumes: {/data: {name: v, mode: ro}}\nconfig: {kubectl_sky: {logs: /data}}": (
        'task.yaml:3:30: config.kubectl_sky.logs: volume "/data" is read-only; remove mode: ro'
    ),
    "volumes: {/data: v}\nconfig: {kubectl_sky: {logs: /data/../x}}": (
        "task.yaml:3:30: config.kubectl_sky.logs: a mount path cannot hold . or .."
    ),
    "resources: {ports: http}": (
        "task.yaml:2:20: resources.ports: expected a port such as 8080, or a range such as"
        ' "8080-8090", got "http"'
    ),
    "file_mounts: {/a: {source: s3://b, type: DATASET_RO}}": (
        "task.yaml:2:36: file_mounts./a.type: means something in the mode MOUNT_CACHED only;"
        " such as mode: MOUNT_CACHED"
    ),
    "envs: {SKYPILOT_DOCKER_USERNAME: u}": (
        "task.yaml:2:8: envs.SKYPILOT_DOCKER_USERNAME: logs in to a registry only together with"
        " SKYPILOT_DOCKER_PASSWORD and SKYPILOT_DOCKER_SERVER"
    ),
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
def test_validate_error_has_expected_text(field: str) -> None:
    assert problems(RUN + field) == [WRONG[field]]


def test_validate_section_of_skypilots_settings_is_named() -> None:
    (problem,) = problems("run: x\naws: {vpc_name: x}\n")
    assert problem.endswith("it is a section of SkyPilot's settings, which is no task file")
