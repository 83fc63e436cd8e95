"""What users of SkyPilot type from habit, and what to type here: data and two lookups.

Imported only when a command or an option is unknown. docs/skypilot-commands.md is made of it, and a
test compares it with SkyPilot's own commands, and with the options of the most frequent ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Verb(NamedTuple):
    """The command that does what a verb of SkyPilot does, "" if there is none, and what to say."""

    command: str
    text: str = ""

    @property
    def answer(self) -> str:
        return self.text or f"use `kubectl sky {self.command}`"


_NO_POOLS = "there are no pools of workers: submit each job, or an array with --array"
_NO_SERVER = "there is no SkyPilot API server: commands talk to the cluster of your kubeconfig"
_KUBECONFIG = "your kubeconfig logs you in; `kubectl sky auth login` only names the owner"
_NO_WORKSPACES = "there are no workspaces: use namespaces, with -n NAMESPACE"
_NO_SSH_POOLS = "there are no SSH node pools: add the machines to a Kubernetes cluster"

VERBS: Mapping[str, Verb] = {
    "launch": Verb("submit"),
    "exec": Verb("exec", "`kubectl sky exec TASK -- CMD` runs a program, not a file"),
    "status": Verb("status", "`kubectl sky status TASK` shows one task, `kubectl sky list` all"),
    "status-kubernetes": Verb("list --all-users"),
    "cost-report": Verb("usage"),
    "queue": Verb("list"),
    "logs": Verb("logs", "`kubectl sky logs -f TASK`: without -f, it does not follow"),
    "cancel": Verb("stop"),
    "stop": Verb("stop", "`kubectl sky stop TASK` deletes the task: there are no stopped clusters"),
    "autostop": Verb("", "there is nothing to stop: a task's pods end when it ends"),
    "start": Verb("", "a stopped task is deleted: use `kubectl sky submit FILE` again"),
    "down": Verb("stop"),
    "check": Verb("doctor"),
    "show-gpus": Verb("gpus"),
    "gpus list": Verb("gpus"),
    "gpus label": Verb("", "the labels of the GPU operators of the cluster are used"),
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
    "jobs cancel": Verb("stop"),
    "jobs logs": Verb("logs", "the same as `kubectl sky logs -f`"),
    "jobs dashboard": Verb("dashboard"),
    "jobs pool": Verb("", _NO_POOLS),
    "jobs pool apply": Verb("", _NO_POOLS),
    "jobs pool status": Verb("", _NO_POOLS),
    "jobs pool down": Verb("", _NO_POOLS),
    "jobs pool logs": Verb("", _NO_POOLS),
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
    "api login": Verb("", _KUBECONFIG),
    "api logout": Verb("", _KUBECONFIG),
    "api info": Verb("auth whoami"),
    "workspace": Verb("", _NO_WORKSPACES),
    "workspace use": Verb("", _NO_WORKSPACES),
    "workspace info": Verb("", _NO_WORKSPACES),
    "ssh": Verb(
        "exec",
        "use `kubectl sky exec TASK -it -- bash`, or `kubectl sky dev ssh-config`",
    ),
    "ssh up": Verb("", _NO_SSH_POOLS),
    "ssh down": Verb("", _NO_SSH_POOLS),
    "debug-dump": Verb("doctor"),
}

# Of kubectl and docker.
OTHER_VERBS: Mapping[str, Verb] = {
    "run": Verb("submit"),
    "apply": Verb("submit"),
    "create": Verb("submit", "use `kubectl sky submit` or `kubectl sky volumes create`"),
    "get": Verb("list"),
    "ls": Verb("list"),
    "ps": Verb("list"),
    "describe": Verb("status"),
    "tail": Verb("logs -f"),
    "delete": Verb("stop"),
    "rm": Verb("stop"),
    "kill": Verb("stop"),
    "attach": Verb("exec"),
    "serve ls": Verb("serve status"),
    "serve list": Verb("serve status"),
    "serve delete": Verb("serve down"),
    "volumes get": Verb("volumes list"),
    "volumes rm": Verb("volumes delete"),
    "gpus ls": Verb("gpus"),
    "queues ls": Verb("queues list"),
    "users ls": Verb("users list"),
    "config ls": Verb("config view"),
    "config list": Verb("config view"),
    "local start": Verb("local up"),
    "local stop": Verb("local down"),
    "local delete": Verb("local down"),
}

_CONFIG = "use `kubectl sky config set`, or `config:` in the file"
_NOTHING_RUNS_ON = "leave it out: a task's pods end when it ends"
_NO_TIERS = "leave it out; for a fast or local disk, use a volume with a StorageClass"
_WAITS = "leave it out: pods wait until they have a cluster node"
_JOBS_ARE_TASKS = "leave it out: jobs are tasks, see `kubectl sky list`"
_ALWAYS_ASKED = "leave it out: the cluster is always asked"

# Our command to options of `sky launch`, `jobs launch`, `exec`, `logs` and `status`, and what to do
# instead. All others have only click's line, which names --help.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "submit": {
        "--config": _CONFIG,
        "--async": "use --detach",
        "--no-async": "leave it out: it is the default",
        "--detach-run": "use --detach",
        "-no-d": "leave out --detach",
        "--dryrun": "use --dry-run",
        "--cluster": "use --name; here, --cluster is a cluster of the kubeconfig",
        "-c": "use --name",
        "-n": "for the name of the task, use --name; here, -n is --namespace",
        "-i": _NOTHING_RUNS_ON,
        "--idle-minutes-to-autostop": _NOTHING_RUNS_ON,
        "--wait-for": _NOTHING_RUNS_ON,
        "--down": _NOTHING_RUNS_ON,
        "--cloud": "use --infra k8s/CONTEXT: tasks run on Kubernetes only",
        "--region": "use --infra k8s/CONTEXT: tasks run on Kubernetes only",
        "--zone": "to choose cluster nodes, write `nodeSelector` in pod_config in the file",
        "--instance-type": "use --cpus, --memory and --gpus",
        "-t": "use --cpus, --memory and --gpus",
        "--disk-tier": _NO_TIERS,
        "--local-disk": _NO_TIERS,
        "--network-tier": "write `network_tier:` below `resources:` in the file",
        "--job-recovery": "write `job_recovery:` below `resources:` in the file",
        "--retry-until-up": _WAITS,
        "-r": _WAITS,
        "--no-setup": "remove `setup` from the file: pods are new, so nothing is set up already",
        "--fast": "leave it out: nothing is provisioned",
        "--clone-disk-from": "use a volume: `volumes:` in the file",
        "--clone": "use a volume: `volumes:` in the file",
        "--resize": "leave it out: each task has its own pods; use --num-nodes",
        "--docker": "leave it out; `kubectl sky local up` starts a cluster on this machine",
        "--num-jobs": "use --array: 10 jobs are --array 0-9",
        "--pool": _NO_POOLS,
        "-p": _NO_POOLS,
        "--job-group": "use `execution: parallel` in the header of a file of several tasks",
        "--workspace": _NO_WORKSPACES,
        "-w": _NO_WORKSPACES,
    },
    "exec": {
        "--cluster": "give the task instead: `kubectl sky exec TASK -- CMD`",
        "-c": "give the task instead: `kubectl sky exec TASK -- CMD`; here, -c is --container",
        "-d": "it runs until the program ends; add & and redirect its output",
        "--detach-run": "it runs until the program ends; add & and redirect its output",
    },
    "logs": {
        "--config": _CONFIG,
        "--no-follow": "use `kubectl sky logs` without -f",
        "--sync-down": "use --output-dir DIR",
        "-s": "for --sync-down, use --output-dir DIR; here, -s is --server",
        "--status": "use `kubectl sky wait TASK`: it exits with 4 if the task failed",
        "--worker": "use --rank",
        "-w": "use --rank",
        "--provision": "use `kubectl sky doctor TASK`",
        "--autostop": _NOTHING_RUNS_ON,
    },
    "status": {
        "--config": _CONFIG,
        "--verbose": "use -o json; -v 6 prints the HTTP requests",
        "-v": "for more details, use -o json; -v 6 prints the HTTP requests",
        "--refresh": _ALWAYS_ASKED,
        "-r": _ALWAYS_ASKED,
        "-u": "use --all-users",
        "--ip": "use `kubectl get pods -o wide`",
        "--endpoints": "use `kubectl sky status TASK --ports`",
        "--endpoint": "use `kubectl sky status TASK --ports`",
        "--show-managed-jobs": _JOBS_ARE_TASKS,
        "--show-services": "use `kubectl sky serve status`",
    },
}

# Words after a command that it does not take.
ARGUMENTS: Mapping[str, str] = {
    "logs": "a task has no jobs with numbers; for the log of one node, use --rank",
    "status": "name one task; `kubectl sky list` has all",
}


def verb(words: Sequence[str], least: int = 1) -> str:
    """Return the error of a command line that begins with these words, or "".

    Each option that needs an answer has a line. `least` is the least number of words of the verb.
    """
    for count in range(min(3, len(words)), least - 1, -1):
        name = " ".join(words[:count])
        if match := VERBS.get(name) or OTHER_VERBS.get(name):
            return "\n".join([f'unknown command "{name}"; {match.answer}', *_options(match, words)])
    return ""


def _options(match: Verb, words: Sequence[str]) -> Iterator[str]:
    known = OPTIONS.get(match.command, {})
    names = (word.partition("=")[0] for word in words)
    return (f"{name}: {known[name]}" for name in names if name in known)


def option(command: str, name: str) -> str:
    """Return what to type instead of an option of one of our commands, or ""."""
    return OPTIONS.get(command, {}).get(name, "")
