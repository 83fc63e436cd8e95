"""The files that a task uploads: workdir and file_mounts, their rules, and credential files."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, field

from kubectl_sky.errors import Problem
from kubectl_sky.spec import variables
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.volumes import is_reserved_path

WORKDIR = "~/sky_workdir"  # the working directory of setup and run

_HALF_URL = re.compile(r"(s3|gs|r2|oci|cos|nebius):/?(?!/)")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_HOME = re.compile(r"~($|[^/])")


# The URLs that git can fetch from; git must not read any part as an option or a program.
# A user and a host begin with a letter or digit, so ssh cannot read them as options.
_USER = r"\w[\w.+-]*"
_HOST = r"(?:\w[\w.-]*|\[[0-9A-Fa-f:.]+\])"
_GIT = re.compile(
    rf"(?:https?|ssh|git)://(?:{_USER}@)?{_HOST}(?::[0-9]+)?/[^\s\0]*|{_USER}@{_HOST}:(?!-)[^\s\0]+",
    re.ASCII,
)
_VARIABLE = r"\$\{?([a-zA-Z_][a-zA-Z0-9_]*)\b\}?"
_LOGIN = re.compile(
    rf"(https?://)(?:([\w.+-]+|{_VARIABLE}):)?{_VARIABLE}@(?=[^@]*$)(.*)", re.ASCII | re.DOTALL
)
# A URL with a password or a possible password: services also accept tokens as user names.
_PASSWORD = re.compile(r"https?://[^/?#]*@|[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#@:]*:[^/?#@]*@")
_REF = re.compile(r"(?!-)[^\s~^:?*\[\\]+")


class RepositoryLogin(Struct, frozen=True):
    """The login of a repository: a user name, and the password's variable.

    The user name can be a variable too: `$NAME`. Values are read in the pod, from the task's
    Secret.
    """

    username: str = "x-access-token"
    password: str = "GIT_TOKEN"

    @property
    def variables(self) -> tuple[str, ...]:
        return (*re.findall(r"^\$(.*)", self.username), self.password)


class Repository(Struct, frozen=True):
    """A git repository at a branch, tag or commit; the URL contains no login."""

    url: str
    ref: str = "HEAD"
    login: RepositoryLogin = field(default_factory=RepositoryLogin)


class LocalFiles(Struct, frozen=True):
    """A local file or folder, and its destination `path`: absolute, or below `~/`.

    `field` is the path in the document that names it.
    """

    path: str
    source: str
    field: Path


_OF_GIT = re.compile(r"(https?|ssh|git|git\+ssh|file)://", re.IGNORECASE)
_REPOSITORY = "write workdir: {url: …}"
_LIKE_REPOSITORY = re.compile(r"[\w.-]+@[\w.-]+:.+|.+\.git|(github|gitlab|bitbucket)\.[a-z]+/.+")


def is_like_repository(source: str) -> bool:
    """Report whether a path that does not exist looks like a git repository."""
    return _LIKE_REPOSITORY.fullmatch(source) is not None


def is_url(source: Data) -> bool:
    return isinstance(source, str) and _URL.match(source) is not None


def repository(workdir: Data) -> Repository | None:
    if not isinstance(workdir, dict):
        return None
    ref = workdir.get("ref") or "HEAD"
    parsed = login(workdir["url"])
    return Repository(parsed[0], ref, parsed[1]) if parsed else Repository(workdir["url"], ref)


def login(url: str) -> tuple[str, RepositoryLogin] | None:
    """Return a URL without its login, and the login; None if it is not in variables."""
    match = _LOGIN.fullmatch(url)
    if not match:
        return None
    scheme, username, variable, password, rest = match.groups()
    username = f"${variable}" if variable else username
    if not username:
        return scheme + rest, RepositoryLogin(password=password)
    return scheme + rest, RepositoryLogin(username, password)


def local_files(data: Mapping[str, Any]) -> tuple[LocalFiles, ...]:
    """Return the local files that a task uploads, the workdir first."""
    workdir = data.get("workdir")
    mounts = data.get("file_mounts")
    files = [LocalFiles(WORKDIR, workdir, ("workdir",))] if isinstance(workdir, str) else []

    for path, source in entries(mounts):
        if isinstance(source, str) and not is_url(source):
            target = target_path(path)
            if files and PurePosixPath(target) == PurePosixPath(WORKDIR):
                target = f"{WORKDIR}/."  # added to the workdir
            files.append(LocalFiles(target, source, ("file_mounts", path)))

        target = target_path(path)
        field_path = ("file_mounts", path, "source")
        sources = list_uploaded(source)
        if isinstance(sources, str):
            files.append(LocalFiles(target, sources, field_path))
        elif sources:
            files += (
                LocalFiles(f"{target}/{PurePosixPath(item).name}", item, (*field_path, index))
                for index, item in enumerate(sources)
            )

    return tuple(files)


def list_copied(mount: Data) -> str | list[str] | None:
    """Return the local folder, or the list of paths, of a bucket that the nodes only copy.

    None if the nodes need a bucket: for a mount, or if it is not filled from local files.
    """
    is_copy = isinstance(mount, dict) and str(mount.get("mode")).upper() == "COPY"
    return list_uploaded(mount) if is_copy else None


def list_uploaded(mount: Data) -> str | list[str] | None:
    """Return the local folder, or the list of paths, that a bucket is filled from."""
    source = mount.get("source") if isinstance(mount, dict) else None
    if isinstance(source, str):
        return source if source and not is_url(source) else None
    is_local = isinstance(source, list) and all(
        isinstance(item, str) and PurePosixPath(item).name not in ("", "..") and not is_url(item)
        for item in source
    )
    return source or None if is_local else None


def target_path(path: str) -> str:
    """Return the full destination; a relative one is below the workdir."""
    return path if path.startswith(("/", "~/")) else f"{WORKDIR}/{path.removeprefix('./')}"


def _workdir(document: Document) -> Iterator[Problem]:
    workdir = document.get("workdir")
    if workdir == "":
        yield document.problem(("workdir",), "the path is empty", "'.' is the current folder")
    elif is_url(workdir):
        is_bucket = not _OF_GIT.match(workdir)
        hint = "for a bucket, write file_mounts: {/data: …}" if is_bucket else _REPOSITORY
        yield document.problem(("workdir",), "expected a local folder", hint)
    url = document.get("workdir", "url")
    ref = document.get("workdir", "ref")
    if isinstance(url, str):
        yield from _url(document, ("workdir", "url"), url)
    if isinstance(ref, str) and ref and not _REF.fullmatch(ref):
        yield document.problem(("workdir", "ref"), "expected a branch, a tag or a commit")


def _url(document: Document, path: Path, url: str) -> Iterator[Problem]:
    """Check a repository's URL; messages never quote it, as it may contain a token."""
    secret_names = variables.secret_names(document)
    bare, account = login(url) or (url, None)
    missing = [name for name in account.variables if name not in secret_names] if account else []

    if missing:
        hint = f"write secrets: {{{missing[0]}: null}}"
        yield document.problem(path, f"{missing[0]} is not a secret of this task", hint)
    elif not account and _PASSWORD.match(url):
        hint = "write secrets: {GIT_TOKEN: null}"
        yield document.problem(path, "the manifests would show the credentials before @", hint)
    elif not _GIT.fullmatch(bare):
        hint = "such as https://github.com/me/code.git or git@github.com:me/code.git"
        yield document.problem(path, "expected the URL of a git repository", hint)
    elif bare.startswith("http://") and account:
        message = "the login would be sent unencrypted over http"
        yield document.problem(path, message, "write https://")
    elif bare.startswith("http://") and RepositoryLogin().password in secret_names:
        message = f"{RepositoryLogin().password} is not sent over http"
        yield document.problem(path, message, "write https://", "warning")


def _file_mounts(document: Document) -> Iterator[Problem]:
    volume_paths = {path for path, _ in entries(document.get("volumes"))}
    destinations: set[str] = set()
    for path, source in entries(document.get("file_mounts")):
        path_error = _wrong(path)
        if path_error:
            yield document.problem(("file_mounts", path), path_error, key=True)
        elif target_path(path) in volume_paths:
            message = "a volume has the same target"
            yield document.problem(("file_mounts", path), message, key=True)
        elif target_path(path) in destinations:
            yield document.problem(
                ("file_mounts", path), "other files have the same target", key=True
            )
        destinations.add(target_path(path))

        if source == "":
            yield document.problem(("file_mounts", path), "the path is empty")

        field_path: Path = ("file_mounts", path)
        if isinstance(source, dict):
            field_path = (*field_path, "source")
            source = source.get("source")
        if isinstance(source, str):
            yield from _source(document, field_path, source)


def _source(document: Document, path: Path, source: str) -> Iterator[Problem]:
    half = _HALF_URL.match(source)
    url = f"{half[1]}://{source[half.end() :]}" if half else source
    if half and not _PASSWORD.match(url):
        hint = f'did you mean "{printable(url)}"?'
        yield document.problem(path, "expected a path or a URL", hint)
    if _PASSWORD.match(url):
        hint = "a store's credentials are in the settings; web files must be public"
        yield document.problem(path, "the manifests would show the credentials before @", hint)


def _lists(document: Document) -> Iterator[Problem]:
    mounts = dict(entries(document.get("file_mounts")))
    destinations = {target_path(path) for path in mounts}
    for path, mount in mounts.items():
        sources = list_uploaded(mount)
        for item in sources if isinstance(sources, list) else ():
            destination = f"{target_path(path)}/{PurePosixPath(item).name}"
            if destination in destinations:
                message = f"other files are uploaded to {printable(destination)}, too"
                yield document.problem(("file_mounts", path, "source"), message)
            destinations.add(destination)


def _wrong(path: str) -> str:
    parts = path.removeprefix("./").split("/")
    cases = (
        (not path, "the destination is empty"),
        (_URL.match(path), "files go to a path of the nodes, not to a URL"),
        (not path.isprintable(), "a path has no control characters"),
        (path.endswith("/"), "a mount path does not end with /"),
        (_HOME.match(path), "write a home directory as ~/…"),
        (".." in parts or "." in parts, "a destination must not contain . or .."),
        ("" in parts[1:], "a path has no empty parts"),
        (is_reserved_path(path), "the task's scripts and files are in this folder"),
        (len(path) > 4096, "the path is too long"),
    )
    return next((message for is_wrong, message in cases if is_wrong), "")


RULES = (_workdir, _file_mounts, _lists)


# Files and folders, at any location.
CREDENTIALS = frozenset(
    {
        ".ssh",
        ".netrc",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".gnupg",
        ".oci",
        ".pypirc",
        ".npmrc",
        ".git-credentials",
        ".pgpass",
        ".boto",
        ".s3cfg",
        ".databrickscfg",
        ".config/gcloud",
        ".config/gh",
        ".config/rclone",
        ".cloudflare",
        ".huggingface",
        ".cache/huggingface/token",
        ".vault-token",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ecdsa_sk",
        "id_ed25519",
        "id_ed25519_sk",
        "kubeconfig",
        "application_default_credentials.json",
        "credentials.json",
        "service-account.json",
        "service_account.json",
    }
)
_CREDENTIAL_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".ppk", ".jks", ".keystore")
_SERVICE_ACCOUNTS = ("service-account", "service_account", "serviceaccount", "client_secret")
_PUBLIC = frozenset({"cacert.pem", "ca-bundle.pem"})  # certificates in Python packages
_LAST = frozenset(path.rpartition("/")[2] for path in CREDENTIALS)
_MAX_PARTS = max(path.count("/") + 1 for path in CREDENTIALS)


def has_credentials(path: str) -> bool:
    """Report whether the path or a folder above it holds credentials."""
    parts = PurePosixPath(path).parts
    paths = (parts[max(0, end - _MAX_PARTS) : end] for end in range(1, len(parts) + 1))
    return any(is_credential("/".join(last)) for last in paths)


def is_credential(path: str) -> bool:
    """Report whether the path itself is a credential file or folder, by its last parts.

    Case does not matter.
    """
    path = path.lower()  # some file systems ignore case: .SSH is .ssh
    name = path.rpartition("/")[2]
    if name in _LAST:
        parts = path.split("/")
        return any("/".join(parts[-count:]) in CREDENTIALS for count in range(1, _MAX_PARTS + 1))
    if name.endswith(_CREDENTIAL_SUFFIXES):
        return name not in _PUBLIC
    return name.endswith(".json") and any(word in name for word in _SERVICE_ACCOUNTS)
