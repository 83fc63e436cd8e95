"""The files that a task brings along: workdir and file_mounts, and the rules of both."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, entries
from kubectl_sky.spec.mounts import is_ours
from kubectl_sky.values import dataclass

WORKDIR = "~/sky_workdir"  # where setup and run begin

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_HOME = re.compile(r"~($|[^/])")


# What git would take for an option or a program, and what it can fetch from.
# A user and a host begin with a letter or digit, so that neither is an option of ssh.
_USER, _HOST = r"\w[\w.+-]*", r"(?:\w[\w.-]*|\[[0-9A-Fa-f:.]+\])"
_GIT = re.compile(
    rf"(?:https?|ssh|git)://(?:{_USER}@)?{_HOST}(?::[0-9]+)?/[^\s\0]*|{_USER}@{_HOST}:(?!-)[^\s\0]+",
    re.ASCII,
)
_PASSWORD = re.compile(r"https?://[^/@]*@|[a-z]+://[^/@:]*:[^/@]*@")
_REF = re.compile(r"(?!-)[^\s~^:?*\[\\]+")


@dataclass(frozen=True)
class Repository:
    """A git repository, at a branch, tag or commit."""

    url: str
    ref: str = "HEAD"


@dataclass(frozen=True)
class LocalFiles:
    """A file or folder of the user's machine, and where it goes: absolute, or below `~/`.

    `field` is the path in the document that says so.
    """

    path: str
    source: str
    field: tuple[str, ...]


def is_url(source: Data) -> bool:
    """Say whether the source of a file mount is elsewhere than on the user's machine."""
    return isinstance(source, str) and _URL.match(source) is not None


def repository(workdir: Data) -> Repository | None:
    """Return the repository that a task begins in, if it is one."""
    if not isinstance(workdir, dict):
        return None
    return Repository(workdir["url"], workdir.get("ref") or "HEAD")


def local_files(data: Mapping[str, Any]) -> tuple[LocalFiles, ...]:
    """Return what a task brings from the user's machine, the workdir first."""
    workdir, mounts = data.get("workdir"), data.get("file_mounts")
    found = [LocalFiles(WORKDIR, workdir, ("workdir",))] if isinstance(workdir, str) else []
    for path, source in entries(mounts):
        if isinstance(source, str) and not is_url(source):
            found.append(LocalFiles(whole(path), source, ("file_mounts", path)))
    return tuple(found)


def whole(path: str) -> str:
    """A relative destination is one below the workdir."""
    return path if path.startswith(("/", "~/")) else f"{WORKDIR}/{path.removeprefix('./')}"


def _workdir(document: Document) -> Iterator[Problem]:
    workdir = document.get("workdir")
    if workdir == "":
        yield document.problem(("workdir",), "the path is empty", "'.' is the current folder")
    elif is_url(workdir):
        hint = "write workdir: {url: …}"
        yield document.problem(("workdir",), "expected a folder of this machine", hint)
    yield from _repository(document)


def _repository(document: Document) -> Iterator[Problem]:
    url, ref = document.get("workdir", "url"), document.get("workdir", "ref")
    if isinstance(url, str) and _PASSWORD.match(url):
        hint = "write secrets: {GIT_TOKEN: null}"
        yield document.problem(("workdir", "url"), "everybody could read what is before @", hint)
    elif isinstance(url, str) and not _GIT.fullmatch(url):
        hint = "such as https://github.com/me/code.git or git@github.com:me/code.git"
        yield document.problem(("workdir", "url"), "expected the URL of a git repository", hint)
    if isinstance(ref, str) and ref and not _REF.fullmatch(ref):
        yield document.problem(("workdir", "ref"), "expected a branch, a tag or a commit")


def _file_mounts(document: Document) -> Iterator[Problem]:
    mounted = {path for path, _ in entries(document.get("volumes"))}
    taken: set[str] = set()
    for path, source in entries(document.get("file_mounts")):
        wrong = _wrong(path)
        if wrong:
            yield document.problem(("file_mounts", path), wrong, key=True)
        elif path in mounted:
            message = "a volume is mounted there, too"
            yield document.problem(("file_mounts", path), message, key=True)
        elif whole(path) in taken:
            yield document.problem(("file_mounts", path), "other files go there, too", key=True)
        taken.add(whole(path))
        if source == "":
            yield document.problem(("file_mounts", path), "the path is empty")


def _wrong(path: str) -> str:
    """Return what is wrong with a destination."""
    parts = path.removeprefix("./").split("/")
    cases = (
        (not path, "the destination is empty"),
        (_URL.match(path), "files go to a path of the nodes, not to a URL"),
        (not path.isprintable(), "a path has no control characters"),
        (path.endswith("/"), "a destination does not end with /"),
        (_HOME.match(path), "only ~/… can be a home directory's"),
        (".." in parts or "." in parts, "a destination cannot hold . or .."),
        ("" in parts[1:], "a path has no empty parts"),
        (is_ours(path), "the task's scripts and files are in this folder"),
        (len(path) > 4096, "is longer than a path can be"),
    )
    return next((message for wrong, message in cases if wrong), "")


RULES = (_workdir, _file_mounts)
