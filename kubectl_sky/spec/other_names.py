"""What other tools call the fields of a task: data and a lookup.

The names are those of Slurm, Docker Compose, Kubernetes, Ray, dstack and TorchX, and their stems:
`num_gpus`, `gpuCount` and `gpus_per_node` have the stem `gpu`.
"""

import re
from collections.abc import Mapping, Sequence

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_AROUND = re.compile(
    r"^(num|n|number_of|no_of|total|max)_|_(count|num|gb|gib|mb|type|model|kind|limit|request"
    r"|per_node|per_task|per_worker)$"
)

# The words of other tools, and SkyPilot's name for each.
_NAMES: Mapping[str, str] = {
    name: field
    for field, names in {
        "accelerators": "gpu gpus gpu_name accelerator_name count gres cuda nvidia.com/gpu"
        " amd.com/gpu accelerator tpu tpus",
        "annotations": "pod_annotations",
        "any_of": "candidates alternatives one_of fallback fallbacks",
        "autostop": "idle_minutes idle_minutes_to_autostop down idle_timeout",
        "cloud": "provider",
        "cpus": "cpu core cores vcpu vcpus ncpus",
        "disk_size": "disk",
        "envs": "env environ environment environment_variables env_vars envvars variables vars"
        " params parameters",
        "event_callback": "on_failure on_success on_exit callback",
        "file_mounts": "mounts mount storage storages storage_mounts files data dataset datasets"
        " bucket buckets artifacts",
        "image_id": "image docker_image container_image container docker",
        "labels": "tags",
        "instance_type": "node_type machine_type vm_type machine hardware",
        "max_duration": "time timeout time_limit timelimit walltime wall_time runtime max_time"
        " max_runtime deadline duration ttl activeDeadlineSeconds",
        "max_hourly_cost": "price max_price budget",
        "max_restarts_on_errors": "retry retries max_retries restarts max_restarts backoffLimit"
        " max_failures restart_policy restartPolicy",
        "memory": "mem ram",
        "network_tier": "efa infiniband rdma interconnect",
        "nodeSelector": "node_labels",
        "num_nodes": "node nodes nnodes node_count instances hosts machines replicas parallelism"
        " completions world_size ntasks scale",
        "readiness_probe": "healthcheck health_check readinessProbe livenessProbe",
        "ref": "branch commit tag revision",
        "region": "datacenter",
        "remote_identity": "service_account",
        "replica_policy": "autoscaling autoscaler autoscale",
        "run": "args arguments cmd command commands entrypoint entry_point script scripts steps"
        " main job",
        "secrets": "credentials",
        "setup": "init init_script prolog preamble pre_run before before_script before_run install",
        "url": "repo repository",
        "use_spot": "spot preemptible capacity",
        "workdir": "working_dir working_directory cwd chdir dir directory project_dir code source"
        " src repo repository git",
        "zone": "availability_zone",
    }.items()
    for name in names.split()
}
_FIELDS = frozenset(_NAMES.values())
# A name may stand for a field of several maps.
_OTHER_NAMES = dict.fromkeys(("repo", "repository"), "url")

_PACKAGES = "install packages in setup, such as setup: pip install NAME"
_IMAGES = "images are built elsewhere: name one with image_id under resources"
_FLAG = "give it to `kubectl sky submit` as {}"
_MINE = "write a comment, or a field of your own, such as x-{}"
_SEVERAL = "use `kubectl sky submit` with --sweep NAME=VALUE,VALUE"
_AFTER = "submit it with --after TASK, or write a pipeline: a document for each task"
_LAST = "write it at the end of run"
_SHM = "leave it out: /dev/shm may use all memory of the node"
# What is no field here, and what to do instead.
_ANSWERS: Mapping[str, str] = {
    **dict.fromkeys(
        ("pip", "conda", "packages", "dependencies", "requirements", "python", "python_version"),
        _PACKAGES,
    ),
    **dict.fromkeys(("modules", "module", "runtime_env", "conda_env", "venv"), _PACKAGES),
    **dict.fromkeys(("build", "dockerfile"), _IMAGES),
    "env_file": _FLAG.format("--env-file FILE"),
    "dotenv": _FLAG.format("--env-file FILE"),
    "namespace": _FLAG.format("-n NAMESPACE"),
    "context": "write infra: k8s/CONTEXT under resources",
    **dict.fromkeys(("user", "owner"), _FLAG.format("--user NAME")),
    **dict.fromkeys(("queue", "partition", "queue_name"), _FLAG.format("--queue NAME")),
    **dict.fromkeys(("detach", "background"), _FLAG.format("--detach")),
    **dict.fromkeys(("shm", "shm_size"), _SHM),
    "after": _FLAG.format("--after TASK"),
    **dict.fromkeys(("depends_on", "needs", "requires", "wait_for"), _AFTER),
    "restart": "write job_recovery under resources",
    "schedule": "there are no schedules; run `kubectl sky submit` from cron",
    **dict.fromkeys(
        ("tasks", "jobs", "stages"),
        "write each task as a document of its own, separated by ---",
    ),
    **dict.fromkeys(("matrix", "search_space", "hyperparameters", "grid", "trials"), _SEVERAL),
    **dict.fromkeys(("teardown", "cleanup", "post_run", "after_script", "epilog"), _LAST),
    **dict.fromkeys(
        ("notify", "webhook", "email", "mail_user"), "use `kubectl sky wait TASK --notify URL`"
    ),
    **dict.fromkeys(
        ("log", "logs", "stdout", "stderr", "output", "error", "log_file"),
        "leave it out: `kubectl sky logs TASK` prints what run prints",
    ),
    **{
        name: _MINE.format(name)
        for name in ("description", "author", "comment", "notes", "version", "project")
    },
}


def fold(name: str) -> str:
    """Return a name with underscores: `num-nodes` and `numNodes` are num_nodes."""
    return _WORD.sub("_", name).replace("-", "_").lower()


def rename(name: str, fields: Sequence[str] = ()) -> str:
    """Return SkyPilot's name of a field that other tools call so; the name itself if unknown.

    `fields` are those of the map that it is in.
    """
    folded = fold(name)
    for text in (name, folded, _AROUND.sub("", _AROUND.sub("", folded))):
        if _OTHER_NAMES.get(text) in fields:
            return _OTHER_NAMES[text]
        if text in _NAMES or text in _FIELDS:
            return _NAMES.get(text, text)
    return name


def is_same(first: str, second: str) -> bool:
    """Report whether two names differ only in case, hyphens and underscores."""
    return fold(first).replace("_", "") == fold(second).replace("_", "")


def is_known(name: str) -> bool:
    return rename(name) != name or bool(answer(name))


def answer(name: str) -> str:
    """Return what to do instead of a field of another tool; "" if unknown."""
    return _ANSWERS.get(fold(name), "")
