"""What users of SkyPilot type from habit, and what to type here: data and two lookups.

Imported only when a command or an option is unknown. docs/tables.py makes a page of it, and a test
compares it with SkyPilot's own commands, and with the options of the most frequent ones.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Verb(NamedTuple):
    """The command that does what a verb of SkyPilot does, "" if there is none, and what to say."""

    command: str
    text: str = ""

    @property
    def answer(self) -> str:
        return self.text or f"use `kubectl sky {self.command}`"


_DELETES = "use `kubectl sky stop TASK`, which deletes the task and its logs"
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
    "cancel": Verb("stop", _DELETES),
    "stop": Verb("stop", "`kubectl sky stop TASK` deletes the task: there are no stopped clusters"),
    "autostop": Verb("", "there is nothing to stop: a task's pods end when it ends"),
    "start": Verb("", "a stopped task is deleted: use `kubectl sky submit FILE` again"),
    "down": Verb("stop", _DELETES),
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
    "jobs cancel": Verb("stop", _DELETES),
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

_NEW_TASK = "a task is not changed or started again: use `kubectl sky rerun`"
_NO_PAUSE = "tasks cannot be paused: `kubectl sky stop TASK` deletes one"
_SHELL = "use `kubectl sky exec TASK -it -- bash`"
_NODES = "`kubectl get nodes` shows the cluster's nodes, `kubectl sky gpus` their GPUs"
_EXAMPLES = "`kubectl sky init --list` shows examples, `kubectl sky explain` has all fields"
_CONTEXTS = "use it without `sky`: `kubectl config`; here, --context chooses one"
_SECRETS = "secrets belong to a task: use `kubectl sky submit` with --secret NAME"

# Of kubectl, docker, Slurm, and other versions of SkyPilot.
OTHER_VERBS: Mapping[str, Verb] = {
    "batch": Verb("submit", "use `kubectl sky submit` with --array 0-99: one task per number"),
    "bench": Verb("submit", "use `kubectl sky submit` once per --gpus, then `kubectl sky list`"),
    **dict.fromkeys(("recipes", "templates", "examples"), Verb("init", _EXAMPLES)),
    "sbatch": Verb("submit", "use `kubectl sky submit FILE`; `kubectl sky init` writes a FILE"),
    "srun": Verb("exec", "use `kubectl sky exec TASK -- CMD`, or `kubectl sky submit FILE`"),
    "salloc": Verb("dev"),
    "squeue": Verb("list"),
    "scancel": Verb("stop", _DELETES),
    "sacct": Verb("list", "`kubectl sky list` has finished tasks, `kubectl sky usage` GPU-hours"),
    **dict.fromkeys(("sinfo", "nodes", "clusters"), Verb("gpus", _NODES)),
    **dict.fromkeys(("restart", "resume", "retry", "edit"), Verb("rerun", _NEW_TASK)),
    **dict.fromkeys(("pause", "suspend"), Verb("stop", _NO_PAUSE)),
    **dict.fromkeys(("shell", "connect"), Verb("exec", _SHELL)),
    **dict.fromkeys(("scontrol", "info", "show", "inspect"), Verb("status")),
    "history": Verb("list"),
    "metrics": Verb("top"),
    "events": Verb("doctor", "`kubectl sky doctor TASK` explains the events of a task"),
    "scale": Verb("serve update", "use `kubectl sky serve update FILE` with --replicas N"),
    "rollout": Verb("serve update", "use it without `sky`: `kubectl rollout undo deployment/NAME`"),
    **dict.fromkeys(("secret", "secrets"), Verb("submit", _SECRETS)),
    "whoami": Verb("auth whoami"),
    "login": Verb("auth login", _KUBECONFIG),
    **dict.fromkeys(
        ("config get-contexts", "config use-context", "config current-context"),
        Verb("config", _CONTEXTS),
    ),
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
_ALL_STATES = "leave it out: finished tasks are listed, too"
_NO_FILE = "leave it out: the file is an argument"
_ONE_TASK = "name the task as an argument; here, -n is --namespace"
_NO_CONTROLLER = "leave it out: there is no controller and no load balancer"
_VOLUME = "use `kubectl sky volumes create NAME SIZE`, or write it in FILE"
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
        "--time": "use --max-duration: 10h, 90m",
        "--exclude": "use --exclude-node",
        "-x": "use --exclude-node",
        "--dependency": "use --after TASK",
        "--fast": "leave it out: nothing is provisioned",
        "--clone-disk-from": "use a volume: `volumes:` in the file",
        "--clone": "use a volume: `volumes:` in the file",
        "-f": _NO_FILE,
        "-e": "use --env",
        **dict.fromkeys(("-g", "--accelerators"), "use --gpus"),
        **dict.fromkeys(("-N", "--nodes"), "use --num-nodes"),
        "--partition": "use --queue",
        "--timeout": "use --wait-timeout for the start, or --max-duration",
        **dict.fromkeys(("--wait", "--follow"), "leave it out: it is the default"),
        "--no-follow": "use --detach",
        "--label": "write `labels:` below `resources:` in the file",
        "--volume": "write `volumes:` in the file",
        "--mount": "write `volumes:` or `file_mounts:` in the file",
        "--retries": "write `job_recovery:` below `resources:` in the file",
        "--replicas": "use `kubectl sky serve up`",
        "--command": "write `run:` in the file",
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
        "--gpus": "leave it out: it runs in the task, with the task's GPUs",
    },
    "list": {
        "-s": "use --status",
        "--field-selector": "use --status STATE, --since or -l: tasks have no other fields",
        **dict.fromkeys(("-a", "--all"), _ALL_STATES),
        "-u": "use --all-users",
        **dict.fromkeys(("-r", "--refresh"), _ALWAYS_ASKED),
    },
    "stop": {
        "-a": "use --all",
        "-n": _ONE_TASK,
        "-f": "name the task, not its file",
        "--purge": "leave it out: all objects are deleted",
    },
    "validate": {"-f": _NO_FILE},
    "gpus": dict.fromkeys(("-a", "--all"), "leave it out: all are shown"),
    "volumes create": dict.fromkeys(("--size", "--name"), _VOLUME),
    "volumes apply": dict.fromkeys(("--name", "--size", "--type", "--infra"), _VOLUME),
    "volumes delete": {"-a": "use --all"},
    "serve up": {"--service-name": "use --name", "-f": _NO_FILE},
    "serve update": {"--mode": "leave it out: replicas are replaced one by one", "-f": _NO_FILE},
    "serve status": {
        "--endpoint": "leave it out: the endpoints are shown",
        "-v": "leave it out; -v 6 prints the HTTP requests",
    },
    "serve logs": {
        **dict.fromkeys(("--controller", "--load-balancer"), _NO_CONTROLLER),
        "--no-follow": "leave it out: it is the default",
        "--sync-down": "redirect the output to a file",
    },
    "serve down": {
        "-a": "use --all",
        "--purge": "leave it out: all objects are deleted",
        "--replica-id": "use `kubectl delete pod`: the Deployment makes another replica",
    },
    "logs": {
        "-n": _ONE_TASK,
        "--controller": _NO_CONTROLLER,
        "--config": _CONFIG,
        "--no-follow": "use `kubectl sky logs` without -f",
        "--sync-down": "use --output-dir DIR",
        "-s": "for --sync-down, use --output-dir DIR; here, -s is --server",
        "--status": "use `kubectl sky wait TASK`: it exits with 4 if the task failed",
        "--worker": "use --rank",
        "-w": "use --rank",
        "--provision": "use `kubectl sky doctor TASK`",
        "--autostop": _NOTHING_RUNS_ON,
        "--all-containers": "name one with -c: the other containers are not the task's",
        "--include": "use --grep",
        "-i": "use --grep",
        "-e": "use --exclude",
    },
    "status": {
        "--config": _CONFIG,
        "-a": "use --all",
        **dict.fromkeys(("--kubernetes", "--k8s"), "use `kubectl sky list`"),
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
    "list": "`kubectl sky status TASK` shows one task",
    "gpus": "it shows all GPUs of the cluster",
    "serve logs": "for the log of one replica, use --replica",
    "serve update": "the name is in the file",
}


def verb(
    words: Sequence[str],
    least: int = 1,
    submit_takes: Callable[[Sequence[str]], bool] = lambda words: False,
) -> str:
    """Return the error of a command line that begins with these words, or "".

    Each option that needs an answer has a line. `least` is the least number of words of the verb.
    What `submit` takes as it is typed is part of the answer.
    """
    for count in range(min(3, len(words)), least - 1, -1):
        name = " ".join(words[:count])
        if match := VERBS.get(name) or OTHER_VERBS.get(name):
            options = list(_options(match, words))
            rest = words[count:]
            answer = match.answer
            if match == Verb("submit") and rest and not options and submit_takes(rest):
                command = "submit" if any(map(_is_file, rest)) else "run"
                answer = f"use `kubectl sky {command} {shlex.join(rest)}`"
            return "\n".join([f'unknown command "{name}"; {answer}', *options])
    return ""


def _is_file(word: str) -> bool:
    """Report whether a word is a task file, not a part of a command, which SkyPilot also takes."""
    return word == "-" or word.endswith((".yaml", ".yml")) or Path(word).is_file()


def _options(match: Verb, words: Sequence[str]) -> Iterator[str]:
    known = OPTIONS.get(match.command, {})
    names = (word.partition("=")[0] for word in words)
    return (f"{name}: {known[name]}" for name in names if name in known)


def option(command: str, name: str) -> str:
    """Return what to type instead of an option of one of our commands, or ""."""
    return OPTIONS.get(command, {}).get(name, "")
