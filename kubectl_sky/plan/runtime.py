"""The scripts that run a task in its pods.

A simple task has a short command in its manifest. All other tasks use the runtime: a ConfigMap with
the scripts that the task runs, which tasks with the same scripts in a namespace share.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.spec.lifecycle import MAX_INTEGER
from kubectl_sky.words import assets, names
from kubectl_sky.words.names import standard_labels
from kubectl_sky.words.settings import DEFAULT_IMAGE

if TYPE_CHECKING:
    from kubectl_sky.spec.task import Task


class Http(Struct, frozen=True):
    """A GET request of the kubelet."""

    path: str
    port: int
    headers: tuple[tuple[str, str], ...]


class Check(Struct, frozen=True):
    """A probe of the container: an HTTP request, or the script if `http` is None.

    Times are in seconds.
    """

    name: str
    http: Http | None
    period: int
    timeout: int
    threshold: int
    script: str = f"{names.SCRIPTS_FOLDER}/probe.sh"


# Shows in the pod's status whether the local files have arrived and the nodes have met. Each run of
# the script waits for 30 seconds, because the kubelet reports a failure as an event. files.sh and
# barrier.py limit the time.
STARTED = Check("startupProbe", None, 1, 60, 1_000_000, script=f"{names.SCRIPTS_FOLDER}/started.sh")


_PROFILE = "profile.sh"
_USES_PROFILE = ' BASH_ENV="${BASH_ENV-/etc/kubectl-sky/profile.sh}"'
_START = "start.sh"


class Runtime(Struct, frozen=True):
    """The ConfigMap with the scripts; its name is a hash of its content."""

    name: str
    namespace: str
    scripts: Mapping[str, str]

    @property
    def labels(self) -> Mapping[str, str]:
        standard = standard_labels(names.MANAGER, self.name)
        return standard | {names.TASK: "true", names.RUNTIME: "true"}


def runtime(namespace: str, scripts: Iterable[str]) -> Runtime:
    name, texts = _config_map(tuple(scripts))
    return Runtime(name, namespace, texts)


@cache  # each node's manifest names it
def _config_map(scripts: tuple[str, ...]) -> tuple[str, Mapping[str, str]]:
    texts = {name: assets.read("runtime", name) for name in scripts}
    digest = hashlib.sha256()
    for name, text in texts.items():
        digest.update(f"{name} {len(text)}\0{text}".encode())
    return f"{names.RUNTIME_PREFIX}{digest.hexdigest()[:8]}", texts


def start(image: str) -> str:
    text = assets.read("runtime", _START)
    return text if profile(image) else text.replace(_USES_PROFILE, "")


def profile(image: str) -> Mapping[str, str]:
    """Return the script that loads conda and ~/.bashrc; the default image has neither."""
    return {} if image == DEFAULT_IMAGE else {_PROFILE: assets.read("runtime", _PROFILE)}


READY = b"kubectl-sky: this node is ready and runs until the task is stopped"
# Any sh and sleep can run this. SIGTERM ends it at once, because sleep replaces the shell.
_KEEP_RUNNING = f"echo '{READY.decode()}'\nexec sleep 2147483647\n"
_EXIT = ":\n"
_GRACE_SECONDS = 30  # of the program after the hooks: the default of pods


def keep_running(task: "Task") -> "Task":
    """Return the task with a script that keeps its nodes up, if it has no run."""
    return task if task.run else replace(task, run=_KEEP_RUNNING)


def exit_after_setup(task: "Task") -> "Task":
    """Return the task with a run that ends at once, if it has none.

    The tasks of a pipeline, a group or an array end after setup: others wait for them.
    """
    return task if task.run else replace(task, run=_EXIT)


def hook_scripts(task: "Task") -> Mapping[str, str]:
    """Return the scripts for SIGTERM, and for changes of the state on rank 0."""
    scripts = {f"hook-{number}.sh": hook.run for number, hook in enumerate(task.hooks, 1)}
    if scripts:
        calls = (
            f"hook {hook.event} {hook.timeout} {name}\n"
            for name, hook in zip(scripts, task.hooks, strict=True)
        )
        scripts["hooks.sh"] = assets.read("runtime", "hooks.sh") + "".join(calls)
    if task.event_callback:
        name = f"export TASK_NAME={shlex.quote(task.name or '')}\n"
        scripts["callback.sh"] = assets.read("runtime", "callback.sh")
        text = assets.read("runtime", "event_callback.sh")
        scripts["event_callback.sh"] = f"{text}{name}{task.event_callback}"
    return scripts


def grace_seconds(task: "Task") -> int | None:
    """Return the grace period of pods with hooks, which run one after another; None without."""
    seconds = sum(hook.timeout for hook in task.hooks)
    return min(seconds + _GRACE_SECONDS, MAX_INTEGER) if task.hooks else None


def interactive_annotations(task: "Task") -> Mapping[str, str]:
    """Return the annotation that tells clients not to wait for the end of a staying task."""
    return {names.INTERACTIVE: "true"} if task.stays or task.run == _KEEP_RUNNING else {}


def interactive_notes(task: "Task") -> Iterator[str]:
    if not (task.run or task.stays):
        yield "the task has no run: its nodes stay up until it is stopped"
