"""Find the programs that a task calls and the default image does not have.

A task without `image_id` runs in python:3.13-slim, which has fewer programs than SkyPilot's image.
The result is a warning from the start of each script, which one regular expression reads.
"""

import re
from collections.abc import Iterator

from kubectl_sky.errors import Problem
from kubectl_sky.spec import image
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.kubernetes import POD_CONFIG
from kubectl_sky.words.settings import MISSING_PROGRAM_ADVICE

_BACKEND = ("config", "kubectl_sky", "backend")
_MAX_SCRIPT = 4096  # characters that are read
_NAMES = (
    "aws bzip2 cargo clang cmake conda curl ffmpeg g++ gcc gcloud git gsutil helm java jq kubectl"
    " make mamba mpirun ninja node npm npx nvcc ollama rsync rustup scp ssh tmux unzip uv"
    " uvx vim wget yarn"
)
_MISSING = "|".join(map(re.escape, _NAMES.split()))
# A call is at the start of a command, or it is pip's call of git.
_START = r"(?:^|[;&|(]|\b(?:then|do|else))[ \t]*(?:sudo[ \t]+(?:-E[ \t]+)?|\w+=[\w./:-]*[ \t]+)?"
_CALL = re.compile(
    rf"{_START}(?:(?P<program>{_MISSING})(?=[\s;&|)]|$)"
    r"|(?P<installer>apt|apt-get|apk|dnf|yum)(?=[ \t]))"
    r"|\bpip3?[ \t][^\n;&|]*?\b(?P<pip>git)\+",
    re.MULTILINE,
)
_DOCKER = re.compile(
    rf"{_START}(?P<call>docker)[ \t]+(?:build|compose|pull|push|run)\b", re.MULTILINE
)
_OWN_DOCKER = re.compile(r"dockerd|dind|docker\.sock|DOCKER_HOST")
_OVER_SSH = re.compile(
    rf"{_START}(?:/\S*/)?(?P<call>mpirun|mpiexec|horovodrun|deepspeed|pdsh)"
    r"(?=(?:[^\n]|\\\n){0,1000}?\s(?:-H|-w|--host|--hostfile)[ \t=])",
    re.MULTILINE,
)
# A call of git that reads the repository of the workdir, and what may lead to another one.
_READS_GIT = re.compile(
    rf"{_START}(?P<git>git)[ \t]+(?:describe|diff|log|ls-files|rev-parse|show|status)\b"
    r"(?![^\n]*\|\|)",
    re.MULTILINE,
)
_OTHER_REPOSITORY = re.compile(r"\bgit[ \t]+(?:clone|init)\b|\b(?:cd|pushd)[ \t]")


def without_git_folder(document: Document) -> Problem | None:
    """Return a warning for a call of git that fails without the `.git` of a local workdir."""
    scripts = {field: str(document.get(field) or "") for field in ("setup", "run")}
    before = ""
    for field, script in scripts.items() if isinstance(document.get("workdir"), str) else ():
        call = _READS_GIT.search(script[:_MAX_SCRIPT])
        if call and not _OTHER_REPOSITORY.search(before + script[: call.start()]):
            message = ".git is not uploaded with the workdir"
            hint = "write !.git in .skyignore"
            return document.warning_in_text(field, call.start("git"), message, hint)
        before += script
    return None


def find_unavailable(document: Document, backend: str | None) -> Iterator[Problem]:
    """Yield warnings for calls that fail with any image: of a Docker daemon or other nodes."""
    scripts = {field: str(document.get(field) or "")[:_MAX_SCRIPT] for field in ("setup", "run")}
    nodes = document.get("num_nodes")
    backend = document.get(*_BACKEND) or backend
    rules = []
    if not _OWN_DOCKER.search(f"{scripts}{document.get('config')}"):
        hint = "name the image in image_id; docs/environment.md shows how a task builds one"
        rules.append((_DOCKER, "a task has no Docker daemon", hint))
    if isinstance(nodes, int) and nodes > 1 and backend != "mpijob":
        hint = "use the mpijob backend, or start a process on each node, such as with torchrun"
        rules.append((_OVER_SSH, "the nodes have no ssh to start processes on the others", hint))
    for pattern, message, hint in rules:
        calls = ((field, pattern.search(script)) for field, script in scripts.items())
        if first := next(((field, call) for field, call in calls if call), None):
            yield document.warning_in_text(first[0], first[1].start("call"), message, hint)


def missing(document: Document, default: str) -> Problem | None:
    containers = document.get(*POD_CONFIG, "spec", "containers")
    items = containers if isinstance(containers, list) else []
    replaced = any(isinstance(item, dict) and item.get("image") for item in items)
    if document.is_header or document.is_volume or replaced or not image.is_default(document):
        return None
    calls = list(_calls(document))
    if not calls:
        return None
    names = [name for name, _, _ in calls]
    listed = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    message = f"the default image {default} has no {listed}"
    _, field, offset = calls[0]
    return document.warning_in_text(field, offset, message, MISSING_PROGRAM_ADVICE)


def _calls(document: Document) -> Iterator[tuple[str, str, int]]:
    """Yield the first call of each missing program: its name, and its field and offset.

    A program that is named before its call may be installed or optional there. After an installer
    nothing is known.
    """
    before = ""
    if isinstance(document.get("workdir", "url"), str):
        before = "git"
        yield "git", "workdir", 0

    for field in ("setup", "run"):
        text = document.get(field)
        script = text[:_MAX_SCRIPT] if isinstance(text, str) else ""
        for call in _CALL.finditer(script):
            if call["installer"]:
                return
            name = call["program"] or call["pip"]
            start = call.start(call.lastgroup or 0)
            if name not in before and name not in script[:start]:
                yield name, field, start
        before += script
