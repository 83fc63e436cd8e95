"""The RayService of a service whose command is `serve run MODULE:APP`."""

import re
import shlex
from dataclasses import dataclass

import yaml

from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Task

# Starts Ray after `setup`, as KubeRay would; applications are imported from the working directory.
START = """export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
ulimit -n 65536 2> /dev/null
eval "exec $KUBERAY_GEN_RAY_START_CMD"
"""
# The head runs Ray's own services, whatever the size of a replica. Without a CPU limit it is never
# throttled while it starts.
HEAD_REQUESTS = {"cpu": "1", "memory": "4Gi"}
HEAD_LIMITS = {"memory": "4Gi"}
_PREFIXES = (["serve", "run"], ["python", "-m", "ray.serve", "run"])
_IMPORT = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_ARGUMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_IGNORED = ("--blocking", "--non-blocking")  # KubeRay deploys the application


@dataclass(frozen=True)
class PodPort:
    """A port of a Ray pod, by the name that KubeRay looks for."""

    name: str
    number: int


@dataclass(frozen=True)
class RayServe:
    """The configuration of Ray Serve as YAML, and the ports of the pods."""

    config: str
    ports: tuple[PodPort, ...]


def plan_ray_serve(task: Task, port: int) -> RayServe:
    """Parse the command of a task. Raises FieldError unless it is `serve run MODULE:APP`."""
    if not any(candidate.image for candidate in task.candidates):
        hint = "such as image_id: rayproject/ray:2.55.1"
        raise FieldError(("resources", "image_id"), "a RayService needs an image with Ray", hint)
    application = {"name": "default", "route_prefix": "/", **_application(task.run or "")}
    config = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": port},
        "applications": [application],
    }
    names = {"serve": port, "gcs-server": 6379, "dashboard": 8265, "client": 10001}
    text = yaml.safe_dump(config, sort_keys=False)
    return RayServe(text, tuple(PodPort(name, number) for name, number in names.items()))


def _application(run: str) -> dict[str, object]:
    lines = [line.strip() for line in run.replace("\\\n", " ").splitlines()]
    commands = [line for line in lines if line and not line.startswith("#")]
    try:
        words = shlex.split("\n".join(commands), comments=True)
    except ValueError as error:
        raise _refused(str(error)) from None
    prefix = next((item for item in _PREFIXES if words[: len(item)] == item), None)
    if prefix is None or len(commands) > 1 or set(";|&$`<>") & set(run):
        raise _refused("its command is not `serve run MODULE:APP` alone")
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
            raise _refused(f'"{word}" is not a field of a RayService')
    if "import_path" not in result:
        raise _refused("MODULE:APP is missing")
    return result | ({"args": arguments} if arguments else {})


def _refused(reason: str) -> FieldError:
    hint = "put other commands into setup, or serve it without --backend rayservice"
    return FieldError(("run",), f"not supported by a RayService: {reason}", hint)
