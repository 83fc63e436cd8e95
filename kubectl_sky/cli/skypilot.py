"""What to type here for a command line of SkyPilot, kubectl or Slurm.

Imported only when a command or an option is unknown. docs/tables.py makes a page of it.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from kubectl_sky.cli import slurm_words
from kubectl_sky.cli.arguments import without_secrets
from kubectl_sky.words.skypilot_options import FLAGS
from kubectl_sky.words.skypilot_verbs import KUBECONFIG, VERBS, Verb, option

Flag = tuple[str, ...]  # the name of an option, and its value if it has one

_RENAMED = re.compile(r"use (--[a-z-]+)(?:;.*)?")  # an answer


_NEW_TASK = "a task is not changed or started again: use `kubectl sky rerun`"
_NO_PAUSE = "tasks cannot be paused: `kubectl sky stop TASK` deletes one"
_SHELL = "use `kubectl sky exec TASK -it -- bash`"
_EXAMPLES = "`kubectl sky init --list` shows examples, `kubectl sky explain` has all fields"
_CONTEXTS = "use it without `sky`: `kubectl config`; here, --context chooses one"
_IMAGES = "images are built elsewhere, and pulled by the cluster: name one with --image"
_FILES = "use `kubectl sky cp`: `kubectl sky cp TASK:PATH .`, or `kubectl sky cp PATH TASK:PATH`"
_NOT_KNOWN = "prices are not known: `kubectl sky usage` shows GPU-hours"
_HELP = "use --help, such as `kubectl sky submit --help`"
_NO_ENVIRONMENTS = "variables belong to a task: use `kubectl sky submit` with --env NAME=VALUE"
_NAMESPACES = "use -n NAMESPACE, or `kubectl config set-context --current --namespace NAME`"
_SECRETS = "secrets belong to a task: use `kubectl sky submit` with --secret NAME"

# Of kubectl, docker, and other versions of SkyPilot.
OTHER_VERBS: Mapping[str, Verb] = {
    "batch": Verb("submit", "use `kubectl sky submit` with --array 0-99: one task per number"),
    "bench": Verb("submit", "use `kubectl sky submit` once per --gpus, then `kubectl sky list`"),
    **dict.fromkeys(("recipes", "templates", "examples"), Verb("init", _EXAMPLES)),
    **dict.fromkeys(("nodes", "clusters"), Verb("gpus", slurm_words.NODES)),
    **dict.fromkeys(("restart", "resume", "retry", "edit"), Verb("rerun", _NEW_TASK)),
    **dict.fromkeys(("pause", "suspend"), Verb("stop", _NO_PAUSE)),
    **dict.fromkeys(("shell", "connect"), Verb("exec", _SHELL)),
    **dict.fromkeys(("info", "show", "inspect"), Verb("status")),
    **dict.fromkeys(("build", "images", "pull"), Verb("", _IMAGES)),
    # Words for what has another name here.
    "replace": Verb("rerun"),
    **dict.fromkeys(("follow", "cat", "output"), Verb("logs -f")),
    **dict.fromkeys(("watch", "monitor"), Verb("list -w")),
    **dict.fromkeys(("abort", "terminate", "end", "cleanup"), Verb("stop")),
    **dict.fromkeys(("up", "deploy", "job submit"), Verb("submit")),
    **dict.fromkeys(("download", "fetch", "upload", "sync", "rsync", "scp"), Verb("cp", _FILES)),
    **dict.fromkeys(("copy", "results", "artifacts", "outputs"), Verb("cp", _FILES)),
    **dict.fromkeys(("notebook", "jupyter", "code", "vscode"), Verb("dev")),
    **dict.fromkeys(("tunnel", "forward", "pf", "open", "expose"), Verb("port-forward")),
    **dict.fromkeys(("debug", "diagnose", "health", "ping", "why-pending"), Verb("doctor")),
    **dict.fromkeys(("lint", "verify", "test"), Verb("validate")),
    **dict.fromkeys(("schema", "fields"), Verb("explain")),
    **dict.fromkeys(("docs", "doc", "man", "manual", "tutorial"), Verb("", _HELP)),
    **dict.fromkeys(("update", "upgrade", "self-update"), Verb("version --check")),
    **dict.fromkeys(("cost", "costs", "price", "estimate", "billing"), Verb("usage", _NOT_KNOWN)),
    **dict.fromkeys(("quota", "quotas", "limits"), Verb("queues")),
    **dict.fromkeys(("settings", "setting"), Verb("config")),
    **dict.fromkeys(("context", "contexts", "use-context"), Verb("config", _CONTEXTS)),
    **dict.fromkeys(("ns", "namespace", "namespaces"), Verb("", _NAMESPACES)),
    **dict.fromkeys(("env", "envs"), Verb("submit", _NO_ENVIRONMENTS)),
    **dict.fromkeys(("convert", "translate"), Verb("render")),
    "docker": Verb("run", "use `kubectl sky run --image IMAGE -- CMD`"),
    "push": Verb("", _IMAGES),
    "logout": Verb("auth logout", KUBECONFIG),
    "bash": Verb("exec", _SHELL),
    **dict.fromkeys(("qsub", "bsub"), Verb("submit")),
    **dict.fromkeys(("qstat", "bjobs"), Verb("list")),
    **dict.fromkeys(("qdel", "bkill"), Verb("stop")),
    "history": Verb("list"),
    "metrics": Verb("top"),
    "events": Verb("doctor", "`kubectl sky doctor TASK` explains the events of a task"),
    "scale": Verb("serve update", "use `kubectl sky serve update FILE` with --replicas N"),
    "rollout": Verb("serve update", "use it without `sky`: `kubectl rollout undo deployment/NAME`"),
    **dict.fromkeys(("secret", "secrets"), Verb("submit", _SECRETS)),
    "whoami": Verb("auth whoami"),
    "login": Verb("auth login", KUBECONFIG),
    **dict.fromkeys(
        (
            *("config get-contexts", "config use-context", "config current-context"),
            *("config set-context", "config rename-context", "config delete-context"),
        ),
        Verb("config", _CONTEXTS),
    ),
    # Of the first versions of SkyPilot.
    **dict.fromkeys(("gpunode", "cpunode", "tpunode"), Verb("dev up")),
    "spot": Verb("", "managed jobs are tasks: use `kubectl sky submit` and `kubectl sky list`"),
    "spot launch": Verb("submit"),
    "spot queue": Verb("list"),
    "spot cancel": Verb("stop"),
    "spot logs": Verb("logs"),
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
    "config edit": Verb(
        "config view", "use `kubectl sky config set`, or edit the file of `config view`"
    ),
    "config ls": Verb("config view"),
    "config list": Verb("config view"),
    "local start": Verb("local up"),
    "local stop": Verb("local down"),
    "local delete": Verb("local down"),
}

# Words after a command that it does not take.
ARGUMENTS: Mapping[str, str] = {
    "cp": "it takes SOURCE TARGET, and a path in a task is TASK:PATH",
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
        if match := VERBS.get(name) or slurm_words.VERBS.get(name) or OTHER_VERBS.get(name):
            flags, others = _parse(name, words[count:])
            answers = {flag[0]: _answer(match.command, flag[0], name) for flag in flags}
            lines = [f"{flag}: {text}" for flag, text in answers.items() if text]
            answer = match.answer
            if match in (Verb("submit"), Verb("run")):
                known = [word for flag in flags for word in _translate(flag, answers[flag[0]])]
                takes_file = match == Verb("submit") and (name == "sbatch" or _is_file(others))
                answer = f"use `kubectl sky {_submit(known, others, takes_file, submit_takes)}`"
            return "\n".join([f'unknown command "{name}"; {answer}', *lines])
    return ""


def _answer(command: str, flag: str, verb: str) -> str:
    if verb in slurm_words.VERBS:
        return slurm_words.option(verb, flag)
    return option(command, flag, verb)


def _parse(verb: str, words: Sequence[str]) -> tuple[Sequence[Flag], Sequence[str]]:
    """Return the options with their values, and the other words, as SkyPilot or Slurm reads them.

    Slurm's options end at the script or command.
    """
    is_slurm = verb in slurm_words.VERBS
    flags: list[Flag] = []
    others: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return flags, [*others, *remaining]
        if not word.startswith("-") or word == "-":
            others.append(word)
            if is_slurm:
                return flags, [*others, *remaining]
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            flags.append((name, value) if equals else _with_value(verb, name, remaining))
        elif len(word) == 2 or _takes_no_value(verb, word):
            flags.append(_with_value(verb, word, remaining))
        elif _takes_no_value(verb, word[:2]):  # -dy
            flags.append((word[:2],))
            remaining.insert(0, f"-{word[2:]}")
        else:  # -i10
            flags.append((word[:2], word[2:]))
    return flags, others


def _takes_no_value(verb: str, name: str) -> bool:
    if verb in slurm_words.VERBS:
        return slurm_words.takes_no_value(verb, name)
    return name in FLAGS


def _with_value(verb: str, name: str, remaining: list[str]) -> Flag:
    """Return an option with the next word, unless it takes no value or another option follows."""
    if _takes_no_value(verb, name) or not remaining or re.match(r"-\D", remaining[0]):
        return (name,)
    return name, remaining.pop(0)


def _translate(flag: Flag, answer: str) -> Sequence[str]:
    """Return the words of an option as `submit` takes it; none if it is not one option there."""
    renamed = _RENAMED.fullmatch(answer)
    if renamed:
        return renamed[1], *flag[1:]
    return () if answer else flag


def _submit(
    options: Sequence[str],
    others: Sequence[str],
    takes_file: bool,
    submit_takes: Callable[[Sequence[str]], bool],
) -> str:
    """Return the command that sends a task file, or that runs a command without a file."""
    if not submit_takes([*options, "--", *others]):
        return "submit" if takes_file else "run"
    options = [*without_secrets(options)]
    if takes_file:
        return shlex.join(["submit", *options, *file_and_arguments(others)])
    if not others:
        return shlex.join(["run", *options])
    line = others[0] if len(others) == 1 and _is_plain(others[0]) else shlex.join(others)
    return f"{shlex.join(['run', *options])} -- {line}"


def file_and_arguments(words: Sequence[str]) -> Sequence[str]:
    """Return a file and its arguments as `submit` takes them: after --, if some are options."""
    needs_dashes = any(word.startswith("-") for word in words[1:])
    return [*words[:1], "--", *words[1:]] if needs_dashes else words


def _is_file(words: Sequence[str]) -> bool:
    """Report whether the words are a task file, not a command, which SkyPilot also takes."""
    if not words or words[0] == "-" or words[0].endswith((".yaml", ".yml")):
        return True
    return len(words) == 1 and os.path.isfile(words[0])  # noqa: PTH113 -- Path raises for long names


def _is_plain(line: str) -> bool:
    """Report whether a line of shell has only words that need no quotes."""
    return all(shlex.quote(word) == word for word in line.split(" "))
