"""`dev`: run a development pod, and write the ssh configuration that reaches it."""

import io
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky.actions import exec as executing
from kubectl_sky.actions.completion_script import PROGRAM
from kubectl_sky.actions.flags import Overrides
from kubectl_sky.actions.taskfile import Source
from kubectl_sky.cluster.errors import one_line
from kubectl_sky.cluster.exec import FirstBytes, Pipes, run
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import UserError
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.spec.lifecycle import DevPod
from kubectl_sky.words import bounded, names, private
from kubectl_sky.words.private import Folder
from kubectl_sky.words.settings import Settings

NO_FILE = "<dev>"  # the file name in messages on a pod that has no task file
SSHD = f"{names.SCRIPTS_FOLDER}/sshd.sh"
_DRAFT = b"name: dev\n"
_MIN_SECONDS = 60
_MAX_SECONDS = 20_000 * 86_400  # Kubernetes counts seconds in 32 bits
_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")  # in the order that ssh prefers
_MAX_KEY_BYTES = 16 * 1024
_PUBLIC_KEY = re.compile(r"((?:ssh|ecdsa|sk)-[\w.@-]+ [A-Za-z0-9+/]+=*)(?: .*)?\s*", re.ASCII)
_ANSWER = re.compile(
    rb"(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,100})\n(?P<key>ssh-ed25519 [A-Za-z0-9+/]{68})[^\n]*\n"
)
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_INCLUDE = "Include kubectl-sky/*.config"
_CHECK_SECONDS = 30.0
_NO_SCRIPT = 64  # the exit code for a pod without sshd.sh
_FLAGS = {  # the connection options that are written into an entry: no token
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "cluster": "--cluster",
    "server": "--server",
    "server_url": "--server-url",
    "certificate_authority": "--certificate-authority",
    "as_user": "--as",
    "as_groups": "--as-group",
    "insecure": "--insecure-skip-tls-verify",
    "user": "--user",
}


def limits(lifetime: float | None, idle: float | None, settings: Settings) -> DevPod:
    """Return the limits of a development pod, from flags in seconds or the settings.

    0 is no limit. Raises UserError.
    """
    for flag, seconds in (("--for", lifetime), ("--idle", idle)):
        if seconds and not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
            raise UserError(
                f"{flag}: expected 1m to 20000d, or 0 for no limit", f"for example: {flag} 1h"
            )
    lifetime = settings.dev.get("for") if lifetime is None else lifetime
    idle = settings.dev.get("idle") if idle is None else idle
    return DevPod(int(lifetime or 0) or None, int(idle or 0) or None)


def without_file(
    overrides: Overrides, environ: Mapping[str, str], dev: DevPod, strict: bool
) -> Source:
    """Return the task of a development pod that has no task file: the flags say what it needs."""
    draft = io.BytesIO(_DRAFT)
    return Source(NO_FILE, overrides, environ, draft, strict, in_memory=True, dev=dev)


@dataclass(frozen=True)
class PublicKey:
    """A public key without its comment, and the path of the private key beside it."""

    text: str
    identity: str


def public_key(path: str | None) -> PublicKey:
    """Read the public key of a file, or the first one in ~/.ssh. Raises UserError."""
    candidates = [Path(path)] if path else [Path.home() / ".ssh" / name for name in _KEYS]
    file = next((candidate for candidate in candidates if path or candidate.is_file()), None)
    if file is None:
        raise UserError("no public key in ~/.ssh", 'create one: run "ssh-keygen -t ed25519"')
    try:
        text = bounded.read(str(file), _MAX_KEY_BYTES).decode(errors="replace")
    except OSError as error:
        raise UserError(f"{file}: {bounded.reason(error)}") from error
    match = _PUBLIC_KEY.fullmatch(text)
    if not match:  # the content is not quoted: it may be a private key
        raise UserError(f"{file}: is not a public key", "choose one with --public-key FILE")
    identity = str(file.with_suffix("").absolute()) if file.suffix == ".pub" else ""
    return PublicKey(match[1], identity)


@dataclass(frozen=True)
class Login:
    """The user to log in as, and the host key of a development pod."""

    user: str
    host_key: str


def login(session: Session, task: TaskStatus) -> Login:
    """Ask the pod how to log in, through exec. Raises UserError if it cannot serve ssh."""
    node = executing.node_of_rank(task, 0)
    check = ["/bin/sh", "-c", '[ -f "$1" ] || exit 64; exec /bin/sh "$1" --check', "sh", SSHD]
    program = executing.task_environment(session, task).program(node, check)
    out, err = FirstBytes(), FirstBytes()
    code = run(session, program, Pipes(stdout=out, stderr=err, seconds=_CHECK_SECONDS))
    if code == _NO_SCRIPT:
        raise UserError(f"task {task.id} is not a development pod", "run `kubectl sky dev`")
    if code:
        raise UserError(
            f"ssh cannot reach task {task.id}: {one_line(err.line) or f'exit code {code}'}",
            "install openssh-server in setup or in the image; `kubectl sky exec -it` works without",
        )
    match = _ANSWER.fullmatch(out.data)  # the image decides what it prints
    if not match:
        raise UserError(f"ssh cannot reach task {task.id}: it has no valid user name and host key")
    return Login(match["user"].decode(), match["key"].decode())


@dataclass(frozen=True)
class Host:
    """The Host entry of a development pod: the alias to connect to, and what it stands for."""

    alias: str
    task_id: str
    login: Login
    key: PublicKey

    def known_hosts(self) -> str:
        """Return the line that lets ssh recognize the pod."""
        return f"{self.task_id} {self.login.host_key}\n"

    def entry(self, command: Sequence[str], known_hosts: Path) -> str:
        """Return the entry; `command` runs a program in the pod. Raises UserError."""
        proxy = [*command, "-i", "-q", "--", "/bin/sh", SSHD, *self.key.text.split()]
        if not all(word.isprintable() for word in proxy):
            raise UserError("the connection options have control characters")
        key = self.key.identity
        identity = [f"  IdentityFile {_quoted(key)}", "  IdentitiesOnly yes"] if key else []
        lines = [
            f"Host {self.alias}",
            f"  User {self.login.user}",
            f"  ProxyCommand {_join(proxy).replace('%', '%%')}",
            *identity,
            f"  HostKeyAlias {self.task_id}",
            f"  UserKnownHostsFile {_quoted(known_hosts.as_posix())}",
            "  StrictHostKeyChecking yes",
            "  ForwardAgent no",
            "  ServerAliveInterval 30",  # proxies close silent connections
        ]
        return "\n".join(lines) + "\n"


def save_known_hosts(host: Host, folder: Folder) -> Path:
    """Write the host key of the pod to a file for ssh; return its path. Raises UserError."""
    return _write(folder, f"{host.alias}.known_hosts", host.known_hosts())


def install(host: Host, entry: str, folder: Folder) -> Path:
    """Write the entry to a file that ~/.ssh/config includes; return its path. Raises UserError."""
    path = _write(folder, f"{host.alias}.config", entry)
    config = folder.path.parent / "config"
    try:
        text = config.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise UserError(f"{config}: {bounded.reason(error)}") from None
    if _INCLUDE in text.splitlines():
        return path
    new = f"{_INCLUDE}\n\n{text}".encode(errors="surrogateescape")  # first: ssh takes first values
    try:
        private.replace(config.resolve(), new)  # a link, such as to a repository of settings, stays
    except OSError as error:
        raise UserError(f"{config}: {bounded.reason(error)}") from None
    return path


def ssh_folder() -> Folder:
    """Return the folder of host keys and entries, below ~/.ssh."""
    return Folder(Path.home() / ".ssh" / "kubectl-sky")


def exec_command(session: Session, task: TaskStatus, flags: Mapping[str, object]) -> list[str]:
    """Return the command that reaches a task from any shell; it has no credentials.

    The context and the kubeconfig are fixed: the entry must not follow the current ones.
    """
    program = shutil.which(PROGRAM)
    command = [str(Path(program).absolute())] if program else ["kubectl", "sky"]
    command += ["exec", task.id, "--namespace", task.namespace]
    kubeconfig = flags.get("kubeconfig") or os.environ.get("KUBECONFIG")
    is_file = kubeconfig and os.pathsep not in str(kubeconfig)
    in_pod = session.context == "in-cluster"
    values = {
        **flags,
        "context": flags.get("context") or ("" if in_pod else session.context),
        "kubeconfig": Path(str(kubeconfig)).absolute() if is_file else None,
    }
    for name, flag in _FLAGS.items():
        value = values.get(name)
        if value is True:
            command.append(flag)
            continue
        for text in value if isinstance(value, tuple) else (value,):
            command += [flag, str(text)] if text else []
    return command


def alias_of(reference: str, task_id: str) -> str:
    """Return the name of the host: what the user typed, if ssh accepts it."""
    return reference if _ALIAS.fullmatch(reference) else task_id


def _write(folder: Folder, name: str, text: str) -> Path:
    try:
        folder.write(name, text.encode())
    except OSError as error:
        raise UserError(f"{folder.path / name}: {bounded.reason(error)}") from None
    return folder.path / name


def _quoted(path: str) -> str:
    """Quote a path for ssh, which expands % and ${NAME}. Raises UserError."""
    if '"' in path or "${" in path or not path.isprintable():
        raise UserError(f"{path}: ssh cannot read a path with such characters")
    return '"' + path.replace("%", "%%") + '"'


def _join(words: Sequence[str]) -> str:
    return shlex.join(words)
