"""What is here for the commands of SkyPilot and their options: data and a lookup.

A test compares it with SkyPilot's own commands. The command line and `kubectl_sky.sky` answer with
its sentences.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kubectl_sky.words.skypilot_options import COMMON, NO_POOLS, NO_WORKSPACES, OPTIONS


class Verb(NamedTuple):
    """The command that does what a verb of SkyPilot does, "" if there is none, and what to say."""

    command: str
    text: str = ""

    @property
    def answer(self) -> str:
        return self.text or f"use `kubectl sky {self.command}`"


DELETES = "use `kubectl sky stop TASK`, which deletes the task and its logs"
_NO_AUTOSTOP = "pods end with their task; for a limit, use `kubectl sky submit` with --max-duration"
_NO_SERVER = "there is no SkyPilot API server: `kubectl sky doctor` checks your cluster"
KUBECONFIG = "your kubeconfig logs you in; `kubectl sky auth login` only names the owner"
_NAMESPACE = "there are no workspaces: use `kubectl config set-context --current --namespace NAME`"
_NO_SSH_POOLS = "there are no SSH node pools: add the machines to a Kubernetes cluster"

VERBS: Mapping[str, Verb] = {
    "launch": Verb("submit"),
    "exec": Verb("exec", "`kubectl sky exec TASK -- CMD` runs a program, not a file"),
    "status": Verb("status", "`kubectl sky status TASK` shows one task, `kubectl sky list` all"),
    "status-kubernetes": Verb("list --all-users"),
    "cost-report": Verb("usage"),
    "queue": Verb("list"),
    "logs": Verb("logs", "`kubectl sky logs -f TASK`: without -f, it does not follow"),
    "cancel": Verb("stop", DELETES),
    "stop": Verb("stop", "`kubectl sky stop TASK` deletes the task: there are no stopped clusters"),
    "autostop": Verb("", _NO_AUTOSTOP),
    "start": Verb("", "a stopped task is deleted: use `kubectl sky submit FILE` again"),
    "down": Verb("stop", DELETES),
    "check": Verb("doctor"),
    "show-gpus": Verb("gpus"),
    "gpus list": Verb("gpus"),
    "gpus label": Verb("", "labels of GPU operators are used: `kubectl sky gpus` shows the GPUs"),
    "storage": Verb("", "buckets are not managed; PVCs are `kubectl sky volumes`"),
    "storage ls": Verb(
        "volumes list",
        "`kubectl sky volumes list` has PVCs; buckets are not managed",
    ),
    "storage delete": Verb(
        "volumes delete",
        "`kubectl sky volumes delete` is for PVCs; buckets are not managed",
    ),
    "volumes apply": Verb("volumes apply"),
    "volumes ls": Verb("volumes list"),
    "volumes delete": Verb("volumes delete"),
    "volume apply": Verb("volumes apply"),
    "volume ls": Verb("volumes list"),
    "volume delete": Verb("volumes delete"),
    "volume": Verb("volumes"),
    "jobs launch": Verb("submit"),
    "jobs queue": Verb("list"),
    "jobs cancel": Verb("stop", DELETES),
    "jobs logs": Verb("logs", "the same as `kubectl sky logs -f`"),
    "jobs dashboard": Verb("dashboard"),
    "jobs pool": Verb("", NO_POOLS),
    "jobs pool apply": Verb("", NO_POOLS),
    "jobs pool status": Verb("", NO_POOLS),
    "jobs pool down": Verb("", NO_POOLS),
    "jobs pool logs": Verb("", NO_POOLS),
    "jobs": Verb("", "jobs are tasks: use `kubectl sky submit`, `list`, `status`, `logs`, `stop`"),
    "dashboard": Verb("dashboard"),
    "ui": Verb("ui", "`kubectl sky ui` is in the terminal, `kubectl sky dashboard` in the browser"),
    "serve up": Verb("serve up"),
    "serve update": Verb(
        "serve update", "`kubectl sky serve update FILE`: the name is in the file"
    ),
    "serve status": Verb("serve status"),
    "serve down": Verb("serve down"),
    "serve logs": Verb("serve logs"),
    "local up": Verb("local up"),
    "local down": Verb("local down"),
    "api start": Verb("api", "no command needs a server; `kubectl sky api` starts one"),
    "api stop": Verb("", "`kubectl sky api` runs until Ctrl-C"),
    "api logs": Verb("", _NO_SERVER),
    "api cancel": Verb("", "there are no requests to cancel; `kubectl sky stop` stops tasks"),
    "api status": Verb("", _NO_SERVER),
    "api login": Verb("", KUBECONFIG),
    "api logout": Verb("", KUBECONFIG),
    "api info": Verb("auth whoami"),
    "workspace": Verb("", NO_WORKSPACES),
    "workspace use": Verb("", _NAMESPACE),
    "workspace info": Verb("", NO_WORKSPACES),
    "ssh": Verb(
        "exec",
        "use `kubectl sky exec TASK -it -- bash`, or `kubectl sky dev ssh-config`",
    ),
    "ssh up": Verb("", _NO_SSH_POOLS),
    "ssh down": Verb("", _NO_SSH_POOLS),
    "debug-dump": Verb("doctor"),
}


def option(command: str, name: str, verb: str = "") -> str:
    """Return what to type instead of an option of one of our commands, or "".

    A verb of SkyPilot may have an option with a meaning of its own.
    """
    if verb and not command:
        return ""  # the answer for the verb is that for its options
    answers = {**COMMON, **OPTIONS.get(command.partition(" -")[0], {}), **OPTIONS.get(verb, {})}
    return answers.get(name, "")
