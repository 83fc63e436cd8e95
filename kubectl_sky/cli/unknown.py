"""What an unknown command means: a pasted prompt, a noun before the verb, a command of kubectl.

Imported only when a command is unknown.
"""

import re
import shlex
import shutil
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import dropwhile

from kubectl_sky.cli.arguments import without_secrets

_PROMPT = ("$", "#", ">", "%", "sudo", "kubectl", "sky", "kubectl-sky", "k")
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"  # that programs put in place of -
_TASKS = ("task", "tasks", "job", "jobs", "pod", "pods")
# Nouns, and the command that shows them.
_NOUNS = {
    **dict.fromkeys(("volume", "volumes", "vol", "pvc", "pvcs"), "volumes"),
    **dict.fromkeys(("service", "services", "svc"), "serve"),
    **dict.fromkeys(("gpu", "gpus", "node", "nodes"), "gpus"),
    **dict.fromkeys(("queue", "queues"), "queues"),
    **dict.fromkeys(("user", "users"), "users"),
    **dict.fromkeys(("config", "setting", "settings"), "config"),
    **dict.fromkeys(("example", "examples"), "init --list"),
}
_ACTIONS = {
    **dict.fromkeys(("get", "ls", "list"), ("list", "status", "view", "whoami")),
    **dict.fromkeys(("show", "describe", "info", "inspect"), ("show", "status", "view", "list")),
    "status": ("status", "list", "whoami", "view"),
    **dict.fromkeys(("create", "add", "new", "make", "apply"), ("create", "add", "up")),
    **dict.fromkeys(("start", "run", "launch", "deploy"), ("up", "create")),
    **dict.fromkeys(("delete", "rm", "remove", "del", "stop"), ("delete", "remove", "down")),
}
# Commands of kubectl for which there is none here.
_KUBECTL = frozenset(
    {
        *("annotate", "api-resources", "api-versions", "auth can-i", "autoscale", "certificate"),
        *("cluster-info", "cordon", "drain", "expose", "kustomize", "label", "patch", "plugin"),
        *("proxy", "set", "taint", "uncordon"),
    }
)
_CUTOFF = 0.7
_MIN_PREFIX = 3


def without_prompt(words: Sequence[str]) -> list[str]:
    """Return the words after a pasted prompt and the name of the program."""
    return [*dropwhile(_PROMPT.__contains__, words)]


def find_line(words: Sequence[str], commands: Collection[str]) -> str:
    """Return the command line that a pasted or quoted one means, as an answer; "" for others."""
    rest = without_prompt(words)
    prompt = " ".join(words[: len(words) - len(rest)])
    if not rest:
        return f'leave out "{prompt}": `kubectl sky --help`'
    first = rest[0]
    is_command = first in commands or " ".join(rest[:2]) in commands or first.startswith("-")
    if prompt and is_command:
        return f'leave out "{prompt}": `{_line(rest)}`'
    split = first.split()
    if len(split) > 1 and split[0] in commands:
        return f"write it without quotes: `{_line([*split, *rest[1:]])}`"
    dashes = re.match(f"[{_DASHES}]+", first)
    if dashes:
        return f"it begins with a long dash; write --{first[dashes.end() :]}"
    return ""


def find_swapped(words: Sequence[str], commands: Collection[str]) -> str:
    """Return the command of words in another order or form, as an answer; "" for others."""
    first, second, *rest = [*words, "", ""][: max(len(words), 2)]
    if first in _TASKS and second in commands:
        return f"tasks need no noun: `{_line([second, *rest])}`"
    if first in _TASKS and first != "jobs" and second in ("", "ls", "get"):
        return "use `kubectl sky list`"
    if first in _ACTIONS and second in _NOUNS:
        return _noun(first, second)
    for joined in (f"{first}-{second}", f"{first}{second}"):
        if second and joined in commands:
            return f"did you mean `{_line([joined, *rest])}`?"
    name = f"{first} {second}"
    if first in _KUBECTL or name in _KUBECTL:
        return f"use it without `sky`: `kubectl {name if name in _KUBECTL else first}`"
    return ""


def find_action(name: str, commands: Sequence[str]) -> str:
    """Return the command of a group that has another name elsewhere; "" if there is none."""
    return next((verb for verb in _ACTIONS.get(name, ()) if verb in commands), "")


def find_noun(words: Sequence[str]) -> str:
    """Return the command that lists a noun among some words; "" if there is none."""
    noun = next((word for word in words if word in _NOUNS), "")
    return _noun("list", noun) if noun else ""


def _noun(action: str, noun: str) -> str:
    """Return the command of kubectl's `ACTION NOUN`."""
    command = _NOUNS[noun]
    verbs = {
        "volumes": ("list", "create", "delete"),
        "serve": ("status", "up", "down"),
        "queues": ("list",),
        "users": ("list", "add", "remove"),
        "config": ("view",),
    }.get(command, ())
    verb = next((verb for verb in _ACTIONS[action] if verb in verbs), "")
    return f"use `kubectl sky {f'{command} {verb}'.rstrip()}`"


def similar(name: str, commands: Collection[str]) -> str:
    """Return the command that a name misspells or begins; "" if there is none."""
    lower = name.lower()
    longer = [command for command in commands if lower.startswith(f"{command}-")]
    if longer:  # stop-all
        return max(longer, key=len)
    begun = [command for command in commands if command.startswith(lower)]
    if len(begun) == 1 and len(lower) >= _MIN_PREFIX:
        return begun[0]
    matches = get_close_matches(lower, [*commands], n=1, cutoff=_CUTOFF)
    return matches[0] if matches else ""


def find_program(words: Sequence[str]) -> str:
    """Return how to run a program of this machine in a task, as an answer; "" for no program."""
    if not shutil.which(words[0]):
        return ""
    return f"to run it in a task: `{_line(['run', '--', *without_secrets(words)])}`"


def _line(words: Sequence[str]) -> str:
    return f"kubectl sky {shlex.join([*without_secrets(words)])}"
