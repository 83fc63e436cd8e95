"""Generate the reference pages of the site from schemas, errors, rules and names."""

import re
from collections.abc import Iterator, Mapping, Sequence

from kubectl_sky import errors
from kubectl_sky.observe.rules import RULES
from kubectl_sky.spec import explain
from kubectl_sky.spec.variables import RESERVED
from kubectl_sky.submitting.overrides import FLAGS, Flag

_FIELDS_INTRO = """\
All fields of a [task file](../task-file.md), as `kubectl sky explain FIELD` prints them.
`*` stands for any name.
Fields of `config.kubernetes.pod_config` are those of a Pod: see `kubectl explain pod`.
"""
_FLAGS_INTRO = """\
Flags of `kubectl sky submit`, and of other commands that read or write a task, the argument of
`Task.override` in [Python](../python-api.md), and the field of the [task file](../task-file.md)
that they set.
"""
_SETTINGS_INTRO = """\
All fields of `settings.yaml`, as `kubectl sky explain settings.NAME` prints them.
The page about [settings](../settings.md) says where the file is and how to change it.
"""
_FINDINGS_INTRO = """\
Every cause that `kubectl sky doctor TASK` knows, in the order of the stages of a task: its rule as
in `-o json`, what doctor says and what to do. Words in capitals stand for values of your task.
The page about [troubleshooting](../troubleshooting.md) explains each group.
"""
_HEADINGS = {
    "queue": "Queue",
    "admission": "Admission",
    "scheduling": "Scheduling",
    "volumes": "Volumes",
    "image": "Image",
    "start": "Start of the container",
    "setup": "Setup",
    "run": "Run",
}
_PLACEHOLDERS = {
    "about": "NAME",
    "end": "EXIT CODE",
    "rest": "MESSAGE",
    "asked": "AMOUNT",
    "used": "AMOUNT",
    "which": "KIND",
}
# Of variables of a task: what they have. Those that scripts use among themselves are left out.
_TASK_VARIABLES = {
    "SKYPILOT_NODE_RANK, NODE_RANK": "number of this node, from 0",
    "SKYPILOT_NUM_NODES, NUM_NODES": "number of nodes",
    "SKYPILOT_NODE_IPS": "IP addresses of all nodes, one per line, in the order of ranks",
    "MASTER_ADDR": "IP address of rank 0, unless `envs` sets it",
    "SKYPILOT_NUM_GPUS_PER_NODE": "number of GPUs of each node; 0 without GPUs",
    "SKYPILOT_TASK_ID": "`NAME-ID` of the task, the same after a restart, unless `envs` sets it",
    "SKYPILOT_USER": "owner of the task",
    "SKYPILOT_CLUSTER_INFO": "JSON with `cluster_name` and `cloud`; `region` and `zone` are null",
    "SKYPILOT_JOB_RANK": "number of this task in an array; otherwise 0",
    "SKYPILOT_NUM_JOBS": "number of tasks of an array; otherwise 1",
    "SKYPILOT_TASK_IDS": "in pipelines and groups: `SKYPILOT_TASK_ID` of all tasks, one per line",
    "SKYPILOT_MANAGED_JOB_ID": "in pipelines and groups: id of the pipeline or group",
    "SKYPILOT_JOBGROUP_NAME": "in groups: domain of the tasks' host names `TASK-RANK.DOMAIN`",
    "SKYPILOT_SERVE_REPLICA_ID": "in services: name of the replica's pod",
    "SKYPILOT_SETUP_NODE_RANK, SKYPILOT_SETUP_NODE_IPS, SKYPILOT_SETUP_NUM_GPUS_PER_NODE": (
        "in `setup` only: the same as without `SETUP_`"
    ),
    "POD_IP": "IP address of this node's pod",
    "JOB_COMPLETION_INDEX": "set by Kubernetes in Indexed Jobs",
    "PYTHONUNBUFFERED": "1, unless `envs` sets it: Python's output appears at once",
    "HOME": "a volume of the pod, if the image's home directory cannot be written",
}
_TASK_INPUTS = {
    "KUBECTL_SKY_BARRIER_TIMEOUT": (
        "seconds that nodes wait for each other at the start (default: 1800)"
    ),
    "KUBECTL_SKY_FILES_TIMEOUT": (
        "seconds that a node waits for uploaded files while no client is connected (default: 300)"
    ),
    "SKYPILOT_DOCKER_USERNAME, SKYPILOT_DOCKER_PASSWORD, SKYPILOT_DOCKER_SERVER": (
        "login of a private image registry"
    ),
    "HF_TOKEN, HF_ENDPOINT": "token and mirror for files from Hugging Face",
    "GIT_TOKEN": "password for a git repository in `workdir`",
    "BASH_ENV": "file that bash loads before each script, instead of `~/.bashrc` and conda",
}
_COMMAND_VARIABLES = {
    "KUBECONFIG": "paths of the kubeconfig (default: `~/.kube/config`)",
    "KUBECTL_SKY_CONFIG_HOME": (
        "directory of the settings (default: `$XDG_CONFIG_HOME/kubectl-sky`,"
        " then `~/.config/kubectl-sky`)"
    ),
    "KUBECTL_SKY_CACHE_HOME": (
        "directory of the cache (default: `$XDG_CACHE_HOME/kubectl-sky`,"
        " then `~/.cache/kubectl-sky`)"
    ),
    "KUBECTL_SKY_STATE_HOME": (
        "directory of the local cluster (default: `$XDG_STATE_HOME/kubectl-sky`,"
        " then `~/.local/state/kubectl-sky`)"
    ),
    "KUBECTL_SKY_SERVER, K8S_CLI_API_URL": "URL of the server, as `--server-url`",
    "KUBECTL_SKY_API_PORT, K8S_CLI_API_PORT": "port of `kubectl sky api` (default: 8000)",
    "KUBECTL_SKY_SESSION_KEYS": "keys of `kubectl sky api` for sessions of browsers",
    "KUBECTL_SKY_NOTIFY": "URL of `wait`, as `--notify`",
    "KUBECTL_SKY_DEBUG": "prints the traceback of an unexpected error",
    "KUBECTL_EXTERNAL_DIFF": "program that `kubectl sky diff` runs on two directories",
    "HTTPS_PROXY, NO_PROXY": "proxy for the API server",
    "NO_COLOR": "no colors",
    "TERM": "`dumb`: no colors and no status line",
    "TMPDIR": "directory for packed copies of large files that are being uploaded",
}


def pages() -> Mapping[str, str]:
    """Return the text of each page, by its path in the site."""
    return {
        "reference/task-fields.md": "\n".join(_task_fields()),
        "reference/task-flags.md": "\n".join(task_flags(FLAGS)),
        "reference/settings.md": "\n".join(_settings()),
        "reference/environment.md": "\n".join(_environment()),
        "reference/exit-codes.md": "\n".join(_exit_codes()),
        "reference/findings.md": "\n".join(_findings()),
    }


def _task_fields() -> Iterator[str]:
    yield f"# Task fields\n\n{_FIELDS_INTRO}"
    yield from _fields("task", 2)
    yield "## Header of a pipeline or group\n"
    yield "The first document of a [file with several tasks](../pipelines.md).\n"
    yield from _fields("header", 3)
    yield "## Volume files\n"
    yield "A file for [`volumes apply`](../task-file.md#volumes).\n"
    yield from _fields("volume", 3)


def task_flags(flags: Sequence[Flag]) -> Iterator[str]:
    """Yield the lines of the page of flags."""
    yield f"# Flags of a task\n\n{_FLAGS_INTRO}"
    yield "| flag | Python | field | |\n|---|---|---|---|"
    for flag in flags:
        names = ", ".join(f"`{name}`" for name in (flag.option, flag.alias) if name)
        field = f"`{flag.field}`" if flag.field else ""
        yield f"| {names} | `{flag.argument or flag.name}` | {field} | {flag.help} |"


def _settings() -> Iterator[str]:
    yield f"# Fields of settings\n\n{_SETTINGS_INTRO}"
    yield from _fields("settings", 2)


def _fields(root: str, level: int) -> Iterator[str]:
    """Yield the lines of all fields of a kind of file, a heading each."""
    for field in explain.explain("" if root == "task" else root).walk():
        depth = min(level + len(field.path) - 1, level + 1)
        yield f"{'#' * depth} `{'.'.join(field.path)}` {{#{_anchor(field.name)}}}\n"
        if field.description:
            yield f"{_text(field.description)}\n"

        details = {
            "Type": field.types.replace("|", " or "),
            "Values": ", ".join(f"`{value}`" for value in field.values),
            "Expected": "" if field.values or field.fields() else _text(field.expected),
            "Default": f"`{field.default}`" if field.default else "",
            "In the cluster": _text(field.pod),
            "SkyPilot": _text(field.skypilot),
        }

        yield from (f"- **{name}**: {text}" for name, text in details.items() if text)
        if field.example:
            yield f"\n```yaml\n{field.example}\n```"
        yield ""


def _anchor(name: str) -> str:
    """Return the anchor of a field: `resources.cpus` becomes `resources-cpus`."""
    return re.sub(r"\W+", "-", name.replace("*", "any")).strip("-")


def _text(text: str) -> str:
    """Escape a text for Markdown, except what is between backticks."""
    escapes = {"<": "&lt;", "*": r"\*", "_": r"\_", "[": r"\[", "]": r"\]"}
    return re.sub(r"(`[^`]*`)|([<*_\[\]])", lambda m: m[1] or escapes[m[2]], text)


def _environment() -> Iterator[str]:
    """Yield the page of environment variables. Raises LookupError if one is not described."""
    described = {name for names in _TASK_VARIABLES for name in names.split(", ")}
    public = {name for name in RESERVED if not name.startswith("KUBECTL_SKY_")}
    if missing := public - described:
        raise LookupError(f"variables without a description: {missing}")

    yield "# Environment variables\n\n## In the pods of a task\n"
    yield "`setup` and `run` have these variables, next to `envs` and `secrets` of the task file:\n"
    yield from _table("variable", _TASK_VARIABLES)

    reserved = ", ".join(f"`{name}`" for name in sorted(RESERVED))
    yield f"\nReserved: a task file cannot change {reserved}.\n"

    yield "## In `envs` and `secrets` of a task file\n"
    yield "These have a meaning for kubectl-sky:\n"
    yield from _table("variable", _TASK_INPUTS)

    yield "\n## For the command\n"
    yield "`kubectl sky config view` shows those that are set, and the settings.\n"
    yield from _table("variable", _COMMAND_VARIABLES)


def _table(head: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield f"| {head} | |\n|---|---|"
    for names, text in rows.items():
        yield f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {text} |"


def _exit_codes() -> Iterator[str]:
    yield "# Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    yield "| 0 | success |"
    yield "| 1 | a bug, or a timeout: `wait --timeout`, `--wait-timeout`; differences, of `diff` |"
    kinds = (errors.UserError, errors.ClusterError, errors.TaskFailed, errors.Interrupted)
    for kind in kinds:
        yield f"| {kind.exit_code} | {_first_line(kind)} |"
    yield "\n`exec` exits with the exit code of the command that it runs."
    yield "`diff` exits with 2 for a bug or a timeout: 1 means differences.\n"
    yield "## Errors\n"
    yield "The classes of the [Python API](../python-api.md#errors), each with its exit code:\n"
    yield "| error | code | |\n|---|---|---|"

    for kind in _subclasses(errors.SkyError):
        if kind.__module__ == errors.__name__:
            yield f"| `{kind.__name__}` | {kind.exit_code} | {_first_line(kind)} |"


def _subclasses(kind: type[errors.SkyError]) -> Iterator[type[errors.SkyError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").split("\n")[0].rstrip(".")


def _findings() -> Iterator[str]:
    yield f"# Findings of doctor\n\n{_FINDINGS_INTRO}"
    for stage, heading in _HEADINGS.items():
        yield f"## {heading}\n"
        yield "| rule | what doctor says | what to do |\n|---|---|---|"
        for rule in RULES:
            if rule.stage == stage:
                then = _template(rule.then) if rule.then != "{advice}" else "depends on the cause"
                what = _template(rule.what.replace("|", ""))
                yield f"| `{rule.name}` | {what} | {then} |"
        yield ""


def _template(text: str) -> str:
    """Return a text with its placeholders in capitals: `{queue}` becomes QUEUE."""
    detail = r"\{(?:taints|have|capacity|wanted|lines|error|why)\}"  # ends a text, often empty
    text = re.sub(detail, "", text).replace("{about} cluster nodes", "N/M cluster nodes")
    text = re.sub(r"\{(\w+)\}", lambda m: _PLACEHOLDERS.get(m[1], m[1].upper()), text)
    return _text(text).replace("|", r"\|").strip(": ")
