"""Options that users of SkyPilot type from habit, and what to type here: data.

A test compares it with all options of SkyPilot's commands: each works here or has an answer. The
answer `use --OPTION`, if nothing or a semicolon follows, is another name for the same value.
"""

from collections.abc import Mapping

NO_POOLS = "there are no pools of workers: submit each job, or an array with --array"
NO_WORKSPACES = "there are no workspaces: use namespaces, with -n NAMESPACE"

_CONFIG = "use `kubectl sky config set`, or `config:` in the file"
_NOTHING_RUNS_ON = "leave it out: a task's pods end when it ends"
_NO_TIERS = "leave it out; for a fast or local disk, use a volume with a StorageClass"
_WAITS = "leave it out: pods wait until they have a cluster node"
_JOBS_ARE_TASKS = "leave it out: jobs are tasks, see `kubectl sky list`"
_NO_FILE = "leave it out: the file is an argument"
_REPLACE = "leave it out: each submit is a new task; `kubectl sky rerun` replaces the last one"
_ONE_TASK = "name the task as an argument; here, -n is --namespace"
_NO_CONTROLLER = "leave it out: there is no controller and no load balancer"
_VOLUME = "use `kubectl sky volumes create NAME SIZE`, or write it in FILE"
_KUBERNETES_ONLY = "use --infra k8s/CONTEXT: tasks run on Kubernetes only"
_CONTEXT = "use --context: one cluster is asked"
_SIZES = "use --cpus, --memory and --gpus"
_CLONE = "use a volume: `volumes:` in the file"
_MOUNTS = "write `volumes:` in the file"
_RECOVERY = "write `job_recovery:` below `resources:` in the file"
_NOT_FINISHED = "use --status pending --status running"
_ALL_STATES = "leave it out: finished tasks are listed, too"
_ALWAYS_ASKED = "leave it out: the cluster is always asked"
_ALL_USERS = "use --all-users"
_ALL_GPUS = "leave it out: all are shown"
_ALL_DELETED = "leave it out: all objects are deleted"
_LEVEL = "here, -v LEVEL prints the HTTP requests"
_NEW_TASK = "use `kubectl sky run` for a new task: exec runs a program in an existing one"
_EXEC_ENV = "use `kubectl sky run --env A=1 -- CMD`, or `kubectl sky exec TASK -- env A=1 CMD`"
_AS_TASK = "name the task: `kubectl sky doctor TASK`"
_TO_FILE = "redirect the output to a file"
_ONE_CLUSTER = "leave it out: there is one local cluster"
_GRACE = "set terminationGracePeriodSeconds in `pod_config` in the file"
_FOR_A_SHELL = "for a shell, use `kubectl sky dev up --image IMAGE`"
_FOREGROUND = "leave it out: it runs in the foreground until Ctrl-C"

# Of every command, if the command itself has no other answer.
COMMON: Mapping[str, str] = {
    "--config": "use `kubectl sky config set`",
    "-c": "leave it out: a task is named as an argument",
    "--json": "use -o json",
    "--async": "leave it out: it returns when the cluster has the change",
    "--no-async": "leave it out: it is the default",
    "--verbose": f"leave it out; {_LEVEL}",
    "-v": f"leave it out; {_LEVEL}",
}

# Fields of a task.
_FIELDS: Mapping[str, str] = {
    "--config": _CONFIG,
    "--cluster": "use --name; here, --cluster is a cluster of the kubeconfig",
    "-c": "use --name",
    "--service-name": "use --name",
    "-n": "use --name; here, -n is --namespace",
    **dict.fromkeys(("--cloud", "--region"), _KUBERNETES_ONLY),
    "--zone": "to choose cluster nodes, write `nodeSelector` in pod_config in the file",
    **dict.fromkeys(("-t", "--instance-type"), _SIZES),
    **dict.fromkeys(("--disk-tier", "--local-disk"), _NO_TIERS),
    "--network-tier": "write `network_tier:` below `resources:` in the file",
    "-e": "use --env",
    **dict.fromkeys(("-g", "--accelerators"), "use --gpus"),
    **dict.fromkeys(("-N", "--nodes"), "use --num-nodes"),
    **dict.fromkeys(("-x", "--exclude"), "use --exclude-node"),
    "--partition": "use --queue",
    **dict.fromkeys(("--gres", "--gpus-per-node"), "use --gpus"),
    "--cpus-per-task": "use --cpus",
    "--mem": "use --memory",
    **dict.fromkeys(("-J", "--job-name"), "use --name"),
    "--label": "write `labels:` below `resources:` in the file",
    "--volume": _MOUNTS,
    "--mount": "write `volumes:` or `file_mounts:` in the file",
    "--job-recovery": _RECOVERY,
    "--retries": _RECOVERY,
    **dict.fromkeys(("-w", "--workspace"), NO_WORKSPACES),
    **dict.fromkeys(("-p", "--pool", "--workers"), NO_POOLS),
}

# How a task is sent, and what happens to its pods.
_SENDING: Mapping[str, str] = {
    "--async": "use --detach",
    "--detach-run": "use --detach",
    "-no-d": "leave out --detach",
    "--no-follow": "use --detach",
    "--dryrun": "use --dry-run",
    **dict.fromkeys(("--wait", "--follow"), "leave it out: it is the default"),
    **dict.fromkeys(("-i", "--idle-minutes-to-autostop"), _NOTHING_RUNS_ON),
    **dict.fromkeys(("--wait-for", "--down", "--autostop"), _NOTHING_RUNS_ON),
    **dict.fromkeys(("-r", "--retry-until-up"), _WAITS),
    "--no-setup": "remove `setup` from the file: pods are new, so nothing is set up already",
    "--fast": "leave it out: nothing is provisioned",
    **dict.fromkeys(("--clone", "--clone-disk-from"), _CLONE),
    "--docker": "leave it out; `kubectl sky local up` starts a cluster on this machine",
}

_TASK: Mapping[str, str] = {
    **_FIELDS,
    **_SENDING,
    "--time": "use --max-duration: 10h, 90m",
    "--timeout": "use --wait-timeout for the start, or --max-duration",
    "--num-jobs": "use --array: 10 jobs are --array 0-9",
    "--resize": "leave it out: each task has its own pods; use --num-nodes",
}

# Our command, or a verb of SkyPilot that has the option with another meaning, to its options and
# what to do instead.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "submit": {
        **_TASK,
        "-f": _NO_FILE,
        "--dependency": "use --after TASK",
        "--replicas": "use `kubectl sky serve up`",
        **dict.fromkeys(("--set", "--var", "--param", "--arg", "-D"), "use --env NAME=VALUE"),
        "--environment": "use --env",
        **dict.fromkeys(("--force", "--replace", "--overwrite"), _REPLACE),
        "--command": "use `kubectl sky run -- CMD`, or write `run:` in the file",
        "--job-group": "write all tasks in one file, with `execution: parallel` in its header",
        "--no-job-group": "leave it out: a task is in a group only if its file says so",
    },
    "run": {
        **_TASK,
        **dict.fromkeys(("-i", "-t", "--interactive", "--tty"), _FOR_A_SHELL),
        "--rm": "leave it out: `kubectl sky stop TASK` deletes it",
        **dict.fromkeys(("-f", "--file"), "use `kubectl sky submit FILE`"),
        **dict.fromkeys(("-p", "--publish"), "use --ports, and `kubectl sky port-forward TASK`"),
        "-v": f"for a volume, write `volumes:` in a file; {_LEVEL}",
    },
    "rerun": {**_TASK, "-f": _NO_FILE, "--last": "leave it out: it is always the last submit"},
    "render": {**_FIELDS, "-f": _NO_FILE},
    "diff": {**_FIELDS, "-f": _NO_FILE},
    "validate": {"-f": _NO_FILE},
    "dev up": {
        **_FIELDS,
        **dict.fromkeys(("-N", "--nodes", "--num-nodes"), "leave it out: it is one pod"),
    },
    "serve up": {**_FIELDS, **_SENDING, "-f": _NO_FILE},
    "serve update": {
        **_FIELDS,
        **_SENDING,
        "--mode": "leave it out: replicas are replaced one by one",
        "-f": _NO_FILE,
    },
    "serve status": {
        "--endpoint": "leave it out: the endpoints are shown",
        **dict.fromkeys(("-a", "--all"), "leave it out: all services are shown"),
        "-u": _ALL_USERS,
    },
    "serve logs": {
        **dict.fromkeys(("--controller", "--load-balancer"), _NO_CONTROLLER),
        "--no-follow": "leave it out: it is the default",
        "--sync-down": _TO_FILE,
        "-s": f"for --sync-down, {_TO_FILE}; here, -s is --server",
    },
    "serve down": {
        "-a": "use --all",
        **dict.fromkeys(("-p", "--purge"), _ALL_DELETED),
        "--replica-id": "use `kubectl delete pod`: the Deployment makes another replica",
    },
    "exec": {
        "--rank": "use one number, or --all-ranks",
        "--cluster": "give the task instead: `kubectl sky exec TASK -- CMD`",
        "-c": "give the task instead: `kubectl sky exec TASK -- CMD`; here, -c is --container",
        **dict.fromkeys(
            ("-d", "--detach-run"), "it runs until the program ends; add & and redirect its output"
        ),
        "--gpus": "leave it out: it runs in the task, with the task's GPUs",
        **dict.fromkeys(("-e", "--env"), _EXEC_ENV),
        "--num-nodes": "use --all-ranks for all nodes of the task; `kubectl sky run` starts others",
        **dict.fromkeys(
            ("-w", "--workdir"),
            "use `kubectl sky cp` for files, or `kubectl sky run` for a new task",
        ),
        "--name": "leave it out: only tasks have names",
        "-n": "for --name, leave it out; here, -n is --namespace",
        "-t": "for --instance-type, leave it out; here, -t is --tty",
        **dict.fromkeys(("--env-file", "--secret", "--secret-file", "--ports"), _NEW_TASK),
        **dict.fromkeys(("--git-url", "--git-ref", "--image-id", "--infra"), _NEW_TASK),
        **dict.fromkeys(("--cloud", "--region", "--zone", "--instance-type"), _NEW_TASK),
        **dict.fromkeys(("--cpus", "--memory", "--disk-size", "--disk-tier"), _NEW_TASK),
        **dict.fromkeys(("--local-disk", "--network-tier"), _NEW_TASK),
        **dict.fromkeys(("--use-spot", "--no-use-spot"), _NEW_TASK),
    },
    "list": {
        **dict.fromkeys(
            ("--columns", "--fields"), "use -o custom-columns=NAME:.name,STATUS:.status"
        ),
        "-s": f"use --status STATE; for unfinished tasks, {_NOT_FINISHED}",
        "--skip-finished": _NOT_FINISHED,
        **dict.fromkeys(("-r", "--refresh"), _ALWAYS_ASKED),
        **dict.fromkeys(("-a", "--all"), _ALL_STATES),
        "-u": _ALL_USERS,
        "-l": "for --limit, use --limit N; here, -l selects by labels",
        "--after": "use --since with a time from now, such as 12h",
        "--before": "use --since for the newer ones; -o json has the time of each task",
        "--infra": "use --context, or --all-contexts",
        "--status": "repeat it for several: --status failed --status running",
        "--field-selector": "use --status STATE, --since or -l: tasks have no other fields",
        "--verbose": "use -o wide",
        "-v": f"use -o wide; {_LEVEL}",
    },
    "queue": {"-s": f"{_NOT_FINISHED}; here, -s is --server"},
    "jobs queue": {"-s": f"{_NOT_FINISHED}; here, -s is --server"},
    "status": {
        "-a": "use --all",
        **dict.fromkeys(("--kubernetes", "--k8s"), "use `kubectl sky list`"),
        "--verbose": "use -o json; -v 6 prints the HTTP requests",
        "-v": "for more details, use -o json; -v 6 prints the HTTP requests",
        "-u": _ALL_USERS,
        "--ip": "use `kubectl get pods -o wide`",
        **dict.fromkeys(("-r", "--refresh"), _ALWAYS_ASKED),
        **dict.fromkeys(("--endpoint", "--endpoints"), "use --ports: it shows the addresses"),
        **dict.fromkeys(("--show-managed-jobs", "--no-show-managed-jobs"), _JOBS_ARE_TASKS),
        "--show-services": "use `kubectl sky serve status`",
        "--no-show-services": "leave it out: only `kubectl sky serve status` has services",
        **dict.fromkeys(("--show-pools", "--no-show-pools"), "leave it out: there are no pools"),
    },
    "logs": {
        "-n": _ONE_TASK,
        "--name": "name the task as an argument",
        "--controller": _NO_CONTROLLER,
        "--lines": "use --tail",
        "--tail": "use a number of lines, or -1 for all",
        "--no-follow": "use `kubectl sky logs` without -f",
        "--sync-down": "use --output-dir DIR",
        "-s": "for --sync-down, use --output-dir DIR; here, -s is --server",
        "--status": "use `kubectl sky wait TASK`: it exits with 4 if the task failed",
        **dict.fromkeys(("-w", "--worker"), "use --rank"),
        "--provision": "use `kubectl sky doctor TASK`",
        **dict.fromkeys(("-r", "--refresh"), _ALWAYS_ASKED),
        "--autostop": _NOTHING_RUNS_ON,
        "--all-pods": "leave it out: the logs of all nodes are printed",
        **dict.fromkeys(("-i", "--include"), "use --grep"),
        "-e": "use --exclude",
        "--hook": "leave it out: the log of the task has the output of its hooks",
        "-u": _ALL_USERS,
    },
    "stop": {
        "-a": "use --all",
        "-u": _ALL_USERS,
        "-n": _ONE_TASK,
        "--name": "name the task as an argument",
        "-f": "name the task, not its file",
        **dict.fromkeys(("-p", "--purge"), _ALL_DELETED),
        "--graceful": "leave it out: pods get SIGTERM and time to end",
        "--graceful-timeout": _GRACE,
        **dict.fromkeys(("-t", "--time", "--grace-period", "--now", "--force"), _GRACE),
        "--pool": NO_POOLS,
        "--task": "name the task of the pipeline as an argument",
        **dict.fromkeys(("-i", "--idle-minutes", "--down"), _NOTHING_RUNS_ON),
    },
    "jobs cancel": {"-p": NO_POOLS},
    "gpus": {
        **dict.fromkeys(("-a", "--all", "--all-regions"), _ALL_GPUS),
        **dict.fromkeys(("--infra", "--cloud", "--region"), _CONTEXT),
    },
    "cp": {
        **dict.fromkeys(("-c", "--container"), "leave it out: files are in the task's container"),
        **dict.fromkeys(
            ("-r", "-R", "--recursive", "-a", "--archive"),
            "leave it out: folders are copied with their files",
        ),
    },
    "usage": {
        "--days": "use --since: 7 days are --since 7d",
        **dict.fromkeys(("-a", "--all"), "leave it out: finished tasks count, too"),
        "-u": _ALL_USERS,
    },
    "doctor": {
        **dict.fromkeys(("-w", "--workspace"), NO_WORKSPACES),
        "--request-ids": "leave it out: there is no SkyPilot API server, and no requests",
        **dict.fromkeys(("-c", "--cluster-names", "-j", "--job-ids"), _AS_TASK),
        **dict.fromkeys(("-r", "--recent-minutes"), _AS_TASK),
    },
    "debug-dump": {
        **dict.fromkeys(("-o", "--output"), "redirect `kubectl sky doctor TASK --share` to a file")
    },
    "volumes create": dict.fromkeys(("--size", "--name"), _VOLUME),
    "volumes apply": {
        **dict.fromkeys(("--name", "--size"), _VOLUME),
        "--type": "leave it out: volumes are PVCs",
        "--infra": "use --context",
        "-n": "for --name, write `name:` in the file; here, -n is --namespace",
        **dict.fromkeys(
            ("--use-existing", "--no-use-existing"), "write `use_existing:` in the file"
        ),
        "-f": _NO_FILE,
    },
    "volumes list": {
        "--verbose": "use --details",
        **dict.fromkeys(("-r", "--refresh"), _ALWAYS_ASKED),
        "-v": f"use --details; {_LEVEL}",
        **dict.fromkeys(("-a", "--all"), "leave it out: all volumes are listed"),
        "-u": _ALL_USERS,
    },
    "volumes delete": {
        "-a": "use --all",
        **dict.fromkeys(("-p", "--purge"), "use --force"),
        "-u": _ALL_USERS,
    },
    "local up": {
        "--name": _ONE_CLUSTER,
        "--num-nodes": "use --nodes",
        "--port-start": "use --port",
        "--gpus": "give the GPUs that it simulates: --gpus A100:8, or --gpus host for this machine",
        "--no-gpus": "leave it out: it has GPUs only with --gpus",
    },
    "local down": {
        "--name": _ONE_CLUSTER,
        **dict.fromkeys(("-y", "--yes"), "leave it out: it does not ask"),
    },
    "api": {
        "--deploy": "use --install, which prints manifests for a cluster",
        "--foreground": _FOREGROUND,
        "--enable-basic-auth": "leave it out: clients send bearer tokens of the cluster",
    },
}

# Words of other tools for an option: the first of these that the command has.
ALIKE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("--node", "--node-rank", "--node-index", "--worker", "--index"), ("--rank",)),
    **dict.fromkeys(("--search", "--match", "--pattern", "--contains"), ("--grep",)),
    "--filter": ("--grep", "--status", "--selector"),
    **dict.fromkeys(("--last", "--head"), ("--tail", "--limit", "--since")),
    **dict.fromkeys(("--lines", "--num-lines"), ("--tail",)),
    **dict.fromkeys(("--save", "--download", "--output-file"), ("--output-dir",)),
    **dict.fromkeys(("--live", "--stream", "--watch", "--refresh"), ("--follow", "--watch")),
    "--follow": ("--watch",),
    "--format": ("--output",),
    "--out": ("--output-dir", "--output"),
    "--state": ("--status", "--for"),
    "--status": ("--for",),
    **dict.fromkeys(("--order", "--order-by"), ("--sort-by",)),
    **dict.fromkeys(("--age", "--newer-than"), ("--since",)),
    **dict.fromkeys(("--max", "--count"), ("--limit",)),
    **dict.fromkeys(("--until", "--wait-for"), ("--for",)),
}

# Those of `sky launch`, `jobs launch` and `exec` that take no value.
FLAGS = frozenset(
    {
        *("--async", "--no-async", "-d", "-no-d", "--detach-run", "--docker", "--down", "--dryrun"),
        *("--fast", "--no-job-group", "--no-setup", "--resize", "-r", "--retry-until-up"),
        *("--use-spot", "--no-use-spot", "-y", "--yes"),
    }
)
