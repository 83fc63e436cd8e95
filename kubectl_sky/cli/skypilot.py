"""What to type here for a command line of SkyPilot, kubectl or Slurm.

Imported only when a command or an option is unknown. docs/tables.py makes a page of it.
"""

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from kubectl_sky.cli.arguments import without_secrets
from kubectl_sky.words.skypilot_options import FLAGS
from kubectl_sky.words.skypilot_verbs import DELETES, KUBECONFIG, VERBS, Verb, option

Flag = tuple[str, ...]  # the name of an option, and its value if it has one

_RENAMED = re.compile(r"use (--[a-z-]+)(?:;.*)?")  # an answer


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
    "scancel": Verb("stop", DELETES),
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
    "login": Verb("auth login", KUBECONFIG),
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
            flags, others = _parse(words[count:])
            answers = {flag[0]: option(match.command, flag[0], name) for flag in flags}
            lines = [f"{flag}: {text}" for flag, text in answers.items() if text]
            answer = match.answer
            if match == Verb("submit"):
                known = [word for flag in flags for word in _translate(flag, answers[flag[0]])]
                answer = f"use `kubectl sky {_submit(known, others, submit_takes)}`"
            return "\n".join([f'unknown command "{name}"; {answer}', *lines])
    return ""


def _parse(words: Sequence[str]) -> tuple[Sequence[Flag], Sequence[str]]:
    """Return the options with their values, and the other words, as SkyPilot reads them."""
    flags: list[Flag] = []
    others: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return flags, [*others, *remaining]
        if not word.startswith("-") or word == "-":
            others.append(word)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            flags.append((name, value) if equals else _with_value(name, remaining))
        elif word in FLAGS or len(word) == 2:
            flags.append(_with_value(word, remaining))
        elif word[:2] in FLAGS:  # -dy
            flags.append((word[:2],))
            remaining.insert(0, f"-{word[2:]}")
        else:  # -i10
            flags.append((word[:2], word[2:]))
    return flags, others


def _with_value(name: str, remaining: list[str]) -> Flag:
    """Return an option with the next word, unless it takes no value or another option follows."""
    if name in FLAGS or not remaining or re.match(r"-\D", remaining[0]):
        return (name,)
    return name, remaining.pop(0)


def _translate(flag: Flag, answer: str) -> Sequence[str]:
    """Return the words of an option as `submit` takes it; none if it is not one option there."""
    renamed = _RENAMED.fullmatch(answer)
    if renamed:
        return renamed[1], *flag[1:]
    return () if answer else flag


def _submit(
    options: Sequence[str], others: Sequence[str], submit_takes: Callable[[Sequence[str]], bool]
) -> str:
    """Return the command that sends a task file, or that runs a command without a file."""
    is_file = not others or _is_file(others)
    if not submit_takes([*options, "--", *others]):
        return "submit" if is_file else "run"
    options = [*without_secrets(options)]
    if is_file:
        return shlex.join(["submit", *options, *others])
    line = others[0] if len(others) == 1 and _is_plain(others[0]) else shlex.join(others)
    return f"{shlex.join(['run', *options])} -- {line}"


def _is_file(words: Sequence[str]) -> bool:
    """Report whether the words are a task file, not a command, which SkyPilot also takes."""
    if words[0] == "-" or words[0].endswith((".yaml", ".yml")):
        return True
    return len(words) == 1 and os.path.isfile(words[0])  # noqa: PTH113 -- Path raises for long names


def _is_plain(line: str) -> bool:
    """Report whether a line of shell has only words that need no quotes."""
    return all(shlex.quote(word) == word for word in line.split(" "))
