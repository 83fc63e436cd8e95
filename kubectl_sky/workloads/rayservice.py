"""RayService backend: KubeRay runs a Ray Serve application on replicas as Ray workers.

The command of its task is `serve run MODULE:APP`.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import yaml
from msgspec.structs import replace

from kubectl_sky.plan.plan import PodPort
from kubectl_sky.spec.document import FieldError
from kubectl_sky.words import bounded, kinds
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.task_objects import ServiceObject, TaskObject
from kubectl_sky.workloads.service import Replicas, Service, plan_replicas
from kubectl_sky.workloads.workload import Manifest

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Node, Plan
    from kubectl_sky.spec.task import Task

# Starts Ray after `setup`, as KubeRay would; applications are imported from the working directory.
_START = """export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
ulimit -n 65536 2> /dev/null
eval "exec $KUBERAY_GEN_RAY_START_CMD"
"""
# The head runs Ray's own services, whatever the size of a replica. Without a CPU limit it is never
# throttled while it starts.
HEAD_REQUESTS = {"cpu": "1", "memory": "4Gi"}
_HEAD_LIMITS = {"memory": "4Gi"}
_PREFIXES = (["serve", "run"], ["python", "-m", "ray.serve", "run"])
_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_ARGUMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_IGNORED = ("--blocking", "--non-blocking")  # KubeRay deploys the application


class RayService(Service):
    """The head only coordinates; each replica is a worker."""

    name = "rayservice"
    kind = kinds.RAY_SERVICE
    template = "rayservice.yaml.j2"
    requires = "KubeRay"

    def adapted(self, plan: "Plan", task: "Task", facts: Facts) -> "Plan":
        """Start Ray in place of `run`, and leave probes and the Service to KubeRay."""
        plan = super().adapted(plan, task, facts)
        return replace(plan, scripts={**plan.scripts, "run.sh": _START}, ports=None)

    def replicas(self, plan: "Plan", task: "Task", facts: Facts) -> Replicas:
        """Parse the command. Raises FieldError unless it is `serve run MODULE:APP`."""
        if not any(candidate.image for candidate in task.candidates):
            reason = "a RayService needs an image with Ray"
            hint = "such as image_id: rayproject/ray:2.55.1"
            raise FieldError(("resources", "image_id"), reason, hint)

        replicas = plan_replicas(plan, task, facts)
        config = {
            "proxy_location": "EveryNode",
            "http_options": {"host": "0.0.0.0", "port": replicas.port},
            "applications": [
                {"name": "default", "route_prefix": "/", **_application(task.run or "")}
            ],
        }

        ports = {"serve": replicas.port, "gcs-server": 6379, "dashboard": 8265, "client": 10001}
        return replace(
            replicas,
            scripts=("entry.sh",),
            ports=tuple(PodPort(name, number) for name, number in ports.items()),
            ray_config=yaml.safe_dump(config, sort_keys=False),
        )

    def pods(self, plan: "Plan") -> "tuple[Node, ...]":
        """Return one RayService; its annotation lets the pods run their own command."""
        (node,) = super().pods(plan)
        return (replace(node, annotations={"ray.io/overwrite-container-cmd": "true"}),)

    def template_values(self, plan: "Plan") -> Mapping[str, object]:
        """Return the plan of the head, which has a size of its own and no devices."""
        head = replace(plan, requests=HEAD_REQUESTS, limits=_HEAD_LIMITS, terms=(), tolerations=())
        return {"head": head}

    def notes(self, plan: "Plan") -> Sequence[str]:
        return (
            *super().notes(plan),
            "rayservice: the application decides how many copies run on the replicas",
            "rayservice: KubeRay checks the replicas; readiness_probe is not used",
        )

    def ranks(self, item: TaskObject) -> Sequence[int]:
        assert isinstance(item, ServiceObject)
        config = item.spec.ray_cluster_config
        groups = (config and config.worker_group_specs) or ()
        return range(1 + sum(bounded.integer(group.replicas) for group in groups))

    def templates(self, manifest: Manifest) -> Sequence[Manifest]:
        cluster = manifest["spec"]["rayClusterConfig"]
        groups = cluster.get("workerGroupSpecs") or ()
        return (cluster["headGroupSpec"]["template"], *(group["template"] for group in groups))

    def pod_counts(self, item: TaskObject) -> Sequence[int]:
        return (1, len(self.ranks(item)) - 1)


def _application(run: str) -> dict[str, object]:
    lines = [line.strip() for line in run.replace("\\\n", " ").splitlines()]
    commands = [line for line in lines if line and not line.startswith("#")]
    try:
        words = shlex.split("\n".join(commands), comments=True)
    except ValueError as error:
        raise _refuse(str(error)) from None
    prefix = next((item for item in _PREFIXES if words[: len(item)] == item), None)
    if prefix is None or len(commands) > 1 or set(";|&$`<>") & set(run):
        raise _refuse("its command is not `serve run MODULE:APP` alone")
    return _options(words[len(prefix) :])


def _options(words: list[str]) -> dict[str, object]:
    result: dict[str, object] = {}
    arguments: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")

        if word in _IGNORED:
            continue
        if flag in ("--name", "--route-prefix"):
            value = value if equals else next(rest, "")
            result[flag[2:].replace("-", "_")] = value
        elif "import_path" not in result and _IMPORT.fullmatch(word):
            result["import_path"] = word
        elif match := _ARGUMENT.fullmatch(word):
            arguments[match[1]] = match[2]
        else:
            raise _refuse(f'"{word}" is not a field of a RayService')

    if "import_path" not in result:
        raise _refuse("MODULE:APP is missing")
    return result | ({"args": arguments} if arguments else {})


def _refuse(reason: str) -> FieldError:
    hint = "put other commands into setup, or serve it without --backend rayservice"
    return FieldError(("run",), f"not supported by a RayService: {reason}", hint)
