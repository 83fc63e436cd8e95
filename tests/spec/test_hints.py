"""Mistakes that YAML or SkyPilot accept silently, with hints."""

import pytest

from kubectl_sky.spec import accelerator
from tests.spec.documents import RUN, problems

TWO = 'write "run: |" to keep the lines, or "run: >" to join them'
WARNED = {
    "run:\n  echo hi\n  python train.py\n": (
        f"2:3: run: warning: YAML joins these 2 lines into one command; {TWO}"
    ),
    "run: cd /code\n  python train.py \\\n  --lr 1\n": (
        f"1:6: run: warning: YAML joins these 3 lines into one command; {TWO}"
    ),
    f"{RUN}setup:\n  pip install a\n\n  pip install b\n": (
        "3:3: setup: warning: YAML joins these 2 lines into one command;"
        ' write "setup: |" to keep the lines, or "setup: >" to join them'
    ),
    f"{RUN}resources:\n  accelerators: H10O:8\n": (
        '3:17: resources.accelerators: warning: unknown GPU "H10O"; did you mean "H100"?'
    ),
    f"{RUN}resources:\n  accelerators: A100-80G:8\n": (
        '3:17: resources.accelerators: warning: unknown GPU "A100-80G";'
        ' did you mean "A100-80GB"?'
    ),
    f"{RUN}resources:\n  accelerators: 8x\n": (
        '3:17: resources.accelerators: warning: unknown GPU "8x"; did you mean "8"?'
    ),
    f"{RUN}resources:\n  accelerators: 8 A100\n": (
        '3:17: resources.accelerators: warning: unknown GPU "8 A100"; did you mean "A100:8"?'
    ),
    f"{RUN}resources:\n  accelerators: A100 or H100\n": (
        '3:17: resources.accelerators: warning: unknown GPU "A100 or H100";'
        ' did you mean "[A100, H100]"?'
    ),
    f"{RUN}resources:\n  accelerators: gpu:2\n": (
        '3:17: resources.accelerators: warning: "gpu" is no model; for any GPU, write the count: 2'
    ),
    f"{RUN}resources:\n  accelerators: none\n": (
        '3:17: resources.accelerators: warning: "none" is no GPU; for a task without GPUs, remove'
        " the line"
    ),
    f"{RUN}name: $NAME\n": (
        "2:7: name: warning: in names of objects, dashes replace what Kubernetes does not allow;"
        " variables are not filled in here; write the value"
    ),
    f"{RUN}secrets: {{A: $A}}\n": (
        "2:14: secrets.A: warning: a variable is not substituted: values of secrets are literal;"
        " write A: null; export A=…, then --secret A"
    ),
    f"{RUN}config: {{kubernetes: {{namespace: a}}}}\n": (
        "2:23: config.kubernetes.namespace: warning: unknown field, ignored;"
        " give it to `kubectl sky submit` as -n NAMESPACE"
    ),
    f"{RUN}config: {{kubernetes: {{node_selector: {{}}}}}}\n": (
        "2:23: config.kubernetes.node_selector: warning: unknown field, ignored;"
        ' "nodeSelector" belongs under config.kubernetes.pod_config.spec'
    ),
    f"{RUN}resources:\n  accelerators: A100 :1\n": (
        '3:17: resources.accelerators: warning: the space in "A100 :1" is ignored;'
        ' write "A100:1"'
    ),
    "run: |\n  run: rm a\n  echo\n": (
        "1:6: run: warning: the script begins with the name of a field; remove it"
    ),
    f"{RUN}resources:\n  accelerators: # which?\n  cpus: null\n": (
        "3:3: resources.accelerators: warning: no value: no GPU; name a GPU, such as A100:1, or"
        " remove the line"
    ),
    f"{RUN}resources:\n  any_of:\n    - accelerators:\n        L4: 1\n        H10O: 8\n": (
        '6:9: resources.any_of[0].accelerators.H10O: warning: unknown GPU "H10O";'
        ' did you mean "H100"?'
    ),
    f"{RUN}resources:\n  accelerators: [L4, 'l4O:2']\n": (
        '3:22: resources.accelerators[1]: warning: unknown GPU "l4O"; did you mean "L40"?'
    ),
}  # fmt: skip

WRONG = {
    f"{RUN}resources:\n  accelerators:\n    A100: 1\n    V100: x\n": (
        '5:5: resources.accelerators.V100: the count must be a number, got "V100:x"'
    ),
    f"{RUN}resources:\n  accelerators:\n    - L4\n    - A:B:8\n": (
        "5:7: resources.accelerators[1]: expected a count such as 1, a name such as V100,"
        ' or both: "V100:2", got "A:B:8"'
    ),
    f"{RUN}envs:\n  A: 1\n  12: 3\n": (
        "4:3: envs.12: expected a variable's name: letters, digits and _, no digit first"
    ),
    f"{RUN}config: {{kubectl_sky: {{max_duration: 2h}}}}\n": (
        "2:24: config.kubectl_sky.max_duration: unknown field; it belongs at the top level"
    ),
    f"{RUN}config: {{kubernetes: {{pod_config: {{containers: []}}}}}}\n": (
        "2:36: config.kubernetes.pod_config.containers: unknown field;"
        " it belongs under config.kubernetes.pod_config.spec"
    ),
    f"{RUN}resources:\n  accelerators: {{A100, 8}}\n": (
        "3:24: resources.accelerators: a field's name is text, YAML reads this one as 8;"
        ' write "A100: 8"'
    ),
    f"{RUN}file_mounts: {{/data: 's3:/b/x'}}\n": (
        '2:22: file_mounts./data: expected a path or a URL; did you mean "s3://b/x"?'
    ),
    f"{RUN}file_mounts: {{/data: 's3:/user:password@b/x'}}\n": (
        "2:22: file_mounts./data: the manifests would show the credentials before @;"
        " a store's credentials are in the settings; web files must be public"
    ),
    f"{RUN}workdir: {{url: 'https://e.com/a.git', branch: main}}\n": (
        '2:39: workdir.branch: unknown field; did you mean "ref"?'
    ),
    f"{RUN}volumes: {{/data: /mnt/data}}\n": (
        '2:18: volumes./data: "/mnt/data" is not a valid volume name: use letters, digits, - and .;'
        " for a folder of the cluster node, write {host_path: /mnt/data}"
    ),
    f"{RUN}config: {{kubernetes: {{kueue: team}}}}\n": (
        "2:30: config.kubernetes.kueue: expected fields such as local_queue_name: my-queue,"
        ' got "team"'
    ),
    f"{RUN}tasks: []\n": (
        "2:1: tasks: unknown field; write each task as a document of its own, separated by ---"
    ),
    "stages: [build]\nbuild: {}\n": (
        "1:1: this is no task file: it has no field of a task; a task needs at least run or setup"
    ),
    f"{RUN}env_file: [.env]\n": (
        "2:1: env_file: unknown field; give it to `kubectl sky submit` as --env-file FILE"
    ),
    f"{RUN}file_mounts: {{/a: {{name: bcd, zzz: 1}}}}\n": (
        "2:31: file_mounts./a.zzz: unknown field;"
        " `kubectl sky explain file_mounts` shows the fields"
    ),
    f"{RUN}num-cpus: 4\n": '2:1: num-cpus: unknown field; "cpus" belongs under resources',
    f"{RUN}gpuCount: 4\n": '2:1: gpuCount: unknown field; "accelerators" belongs under resources',
    f"{RUN}NUM_NODES: 4\n": '2:1: NUM_NODES: unknown field; did you mean "num_nodes"?',
    f"{RUN}time_limit: 1h\n": '2:1: time_limit: unknown field; did you mean "max_duration"?',
    f"{RUN}max_retries: 1\n": (
        '2:1: max_retries: unknown field; "max_restarts_on_errors" belongs under'
        " resources.job_recovery"
    ),
    f"{RUN}pip: [torch]\n": (
        "2:1: pip: unknown field; install packages in setup, such as setup: pip install NAME"
    ),
    f"{RUN}needs: [a]\n": (
        "2:1: needs: unknown field; submit it with --after TASK, or write a pipeline: a document"
        " for each task"
    ),
    f"{RUN}namespace: a\n": (
        "2:1: namespace: unknown field; give it to `kubectl sky submit` as -n NAMESPACE"
    ),
    f"{RUN}description: a\n": (
        "2:1: description: unknown field; write a comment, or a field of your own, such as"
        " x-description"
    ),
    f"{RUN}service: {{readiness_probe: {{path: /, timeout: 5}}}}\n": (
        '2:38: service.readiness_probe.timeout: unknown field; did you mean "timeout_seconds"?'
    ),
    f"{RUN}workdir: {{url: 'https://e.com/a', repository: x}}\n": (
        '2:35: workdir.repository: unknown field; did you mean "url"?'
    ),
    f"{RUN}workdir: s3://bucket/x\n": (
        "2:10: workdir: expected a local folder; for a bucket, write file_mounts: {/data: …}"
    ),
    f"{RUN}workdir: $HOME/code\n": "2:10: workdir: the variable HOME is not set; write ~",
    f"{RUN}num_nodes: '1.5'\n": (
        '2:12: num_nodes: expected a whole number of nodes, at least 1, got "1.5"'
    ),
    f"{RUN}num_nodes: 2 nodes\n": (
        '2:12: num_nodes: expected a whole number of nodes, at least 1, got "2 nodes";'
        " did you mean 2?"
    ),
    f"{RUN}max_duration: 01:30:00\n": (
        "2:15: max_duration: expected a time with a unit such as 90m, 10h or 1h30m,"
        ' got "01:30:00"; did you mean "1h30m"?'
    ),
    f"{RUN}envs: [A=1, B=2]\n": (
        '2:7: envs: expected variables such as A: 1, got a list; write A: VALUE, without "- "'
    ),
    f"{RUN}envs: [DATA_DIR=/data]\n": (
        "2:7: envs: expected variables such as A: 1, got a list;"
        ' write DATA_DIR: VALUE, without "- "'
    ),
    f"{RUN}envs: PASSWORD=/abc\n": (
        '2:7: envs: expected variables such as A: 1, got "PASSWORD=/abc"; write PASSWORD: VALUE'
    ),
    f"{RUN}envs: [{{name: A, value: 1}}]\n": (
        "2:7: envs: expected variables such as A: 1, got a list;"
        " write NAME: VALUE for each, without name and value"
    ),
    f"{RUN}config: {{kubernetes: {{pod_config: {{spec: {{container: []}}}}}}}}\n": (
        "2:43: config.kubernetes.pod_config.spec.container: unknown field;"
        ' did you mean "containers"?'
    ),
    f"{RUN}envs: .env\n": (
        '2:7: envs: expected variables such as A: 1, got ".env";'
        " give the file to `kubectl sky submit` as --env-file FILE"
    ),
    f"{RUN}volumes: ['data:/data']\n": (
        "2:10: volumes: expected mounts such as /data: my-volume, got a list;"
        ' write /data: data, without "- "'
    ),
    f"{RUN}resources: {{cpus: 4 cores}}\n": (
        '2:19: resources.cpus: CPUs are a number such as 2, 0.5, "4+" or "500m", got "4 cores";'
        ' did you mean "4"?'
    ),
    f"{RUN}resources: {{memory: 16-32}}\n": (
        '2:21: resources.memory: memory is GiB such as 8, or has a unit: "16GB", "512Mi",'
        ' got "16-32"; did you mean "16+"?'
    ),
    f"{RUN}resources: {{priority: high}}\n": (
        "2:23: resources.priority: expected a whole number of at least -1000 and at most 1000,"
        ' got "high"; for a class, write priority_class: high'
    ),
    f"{RUN}resources: {{job_recovery: 5}}\n": (
        "2:27: resources.job_recovery: expected a strategy's name, or fields such as"
        " max_restarts_on_errors: 3, got 5"
    ),
    f"{RUN}resources: {{accelerators: A100=8}}\n": (
        "2:27: resources.accelerators: expected a count such as 1, a name such as V100,"
        ' or both: "V100:2", got "A100=8"; did you mean A100:8?'
    ),
    f"{RUN}resources: {{accelerators: 4090}}\n": (
        "2:27: resources.accelerators: more than 1024 GPUs per node are not supported,"
        ' got "4090"; did you mean RTX4090?'
    ),
    f"{RUN}resources: {{accelerators: nvidia.com/gpu=8}}\n": (
        "2:27: resources.accelerators: expected a count such as 1, a name such as V100,"
        ' or both: "V100:2", got "nvidia.com/gpu=8"; did you mean 8?'
    ),
    f"{RUN}resources: {{accelerators: {{name: A100, count: 8}}}}\n": (
        '2:28: resources.accelerators.name: the count must be a number, got "name:A100";'
        " write {A100: 8}"
    ),
    f"{RUN}resources: {{any_of: [A100]}}\n": (
        "2:22: resources.any_of[0]: expected fields such as accelerators: L4,"
        ' got "A100"; write accelerators: A100'
    ),
    f"{RUN}resources: {{any_of: ['A100:8']}}\n": (
        "2:22: resources.any_of[0]: expected fields such as accelerators: L4,"
        ' got "A100:8"; write accelerators: A100:8'
    ),
    f"{RUN}resources: {{ports: 8080/tcp}}\n": (
        '2:20: resources.ports: expected a port such as 8080, or a range such as "8080-8090",'
        ' got "8080/tcp"; did you mean 8080?'
    ),
    f"{RUN}resources: {{ports: $PORT}}\n": (
        '2:20: resources.ports: expected a port such as 8080, or a range such as "8080-8090",'
        ' got "$PORT"; variables are not filled in here; write the value'
    ),
    f"{RUN}resources: {{image_id: ./Dockerfile}}\n": (
        "2:23: resources.image_id: this is a file, and images are pulled from a registry;"
        " build and push it, then write its name, such as ghcr.io/me/train:1"
    ),
    f"{RUN}resources: {{image_id: 'https://hub.docker.com/r/a/b'}}\n": (
        "2:23: resources.image_id: an image has no https:// before it; write a/b"
    ),
    f"{RUN}zzz: 1\n": "2:1: zzz: unknown field; `kubectl sky explain` shows the fields",
    f"{RUN}resources: {{any_of: [{{zzz: 1}}]}}\n": (
        "2:23: resources.any_of[0].zzz: unknown field; `kubectl sky explain resources.any_of`"
        " shows the fields"
    ),
    f"{RUN}resources:\n  accelerators: 3090:1\n": (
        '3:17: resources.accelerators: more than 1024 GPUs per node are not supported, got "185401"'
        "; YAML reads 3090:1 as a number in base 60: 185401; quote it"
    ),
    f"{RUN}rnu: echo hi\n": '2:1: rnu: unknown field; did you mean "run"?',
}

FINE = (
    "run: python train.py\n  --lr 1\n  --epochs 2\n",
    "run:\n  cd code &&\n  python train.py\n  | tee log\n",
    "run: |\n  cd code\n  python train.py\n",
    "run: >\n  python\n  train.py\n",
    "run: 'a\n  b'\n",
    f"{RUN}resources:\n  accelerators: RTX3080:1\n",
    f"{RUN}resources:\n  accelerators: our-own-chip:1\n",
    f"{RUN}resources:\n  accelerators: h100:1\n",
    f"{RUN}resources:\n  accelerators: tpu-v5litepod-8\n",
    f"{RUN}resources:\n  accelerators: 80GB+\n",
)


@pytest.mark.parametrize("text", WARNED)
def test_probable_mistake_is_warned(text: str) -> None:
    assert problems(text, "warning") == [f"task.yaml:{WARNED[text]}"]
    assert problems(text) == []


@pytest.mark.parametrize("text", WRONG)
def test_invalid_value_is_reported_at_its_position(text: str) -> None:
    assert problems(text) == [f"task.yaml:{WRONG[text]}"]


def test_swapped_volume_is_written_with_its_path_first() -> None:
    messages = problems(f"{RUN}volumes: {{data: /mnt/x}}\n")
    assert messages[1].endswith("use letters, digits, - and .; write /mnt/x: data")


@pytest.mark.parametrize("text", FINE)
def test_plausible_text_is_accepted(text: str) -> None:
    assert problems(text) + problems(text, "warning") == []


def test_suggestion_for_known_model_is_empty() -> None:
    names = *accelerator.MODEL_NAMES, "H100-SXM", "RTX4060-SHARED", "RTX4500-ADA-GENERATION"
    assert [name for name in names if accelerator.suggestion(name)] == []


SUGGESTED = {"RTXA6000": "A6000", "A1000": "A100", "H100x8": "H100:8", "A4500": "RTXA4500"}
SUGGESTED |= {"4xH100": "H100:4", "A100 8": "A100:8", "A100-8": "A100:8", "h100 x 16": "H100:16"}


@pytest.mark.parametrize("name", SUGGESTED)
def test_suggestion_for_misspelt_model_is_the_nearest(name: str) -> None:
    assert accelerator.suggestion(name) == SUGGESTED[name]
