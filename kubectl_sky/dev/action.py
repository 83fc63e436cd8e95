"""`dev`: find the existing pod; ask it how to log in, and write the files that ssh reads."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubectl_sky.actions.completion import PROGRAM
from kubectl_sky.cluster.errors import one_line
from kubectl_sky.cluster.exec import FirstBytes, Pipes, run
from kubectl_sky.cluster.session import Session
from kubectl_sky.dev.model import SSHD, PublicKey, SshHost, SshLogin
from kubectl_sky.errors import UserError
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import exec as execute
from kubectl_sky.tasks import find
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import bounded, private
from kubectl_sky.words.private import Folder

_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")  # in the order that ssh prefers
_PUBLIC_KEY = re.compile(r"((?:ssh|ecdsa|sk)-[\w.@-]+ [A-Za-z0-9+/]+=*)(?: .*)?\s*", re.ASCII)
_ANSWER = re.compile(
    rb"(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,100})\n(?P<key>ssh-ed25519 [A-Za-z0-9+/]{68})[^\n]*\n"
)
_INCLUDE = "Include kubectl-sky/*.config"
_CHECK_SECONDS = 30.0
_NO_SCRIPT = 64  # the exit code for a pod without sshd.sh
_CHECK = ["/bin/sh", "-c", f'[ -f "$1" ] || exit {_NO_SCRIPT}; exec /bin/sh "$1" --check']
_FLAGS = {  # the connection options that are written into an entry: no token
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "cluster": "--cluster",
    "server": "--server",
    "server_url": "--server-url",
    "certificate_authority": "--certificate-authority",
    "client_certificate": "--client-certificate",
    "client_key": "--client-key",
    "tls_server_name": "--tls-server-name",
    "as_user": "--as",
    "as_uid": "--as-uid",
    "as_groups": "--as-group",
    "insecure": "--insecure-skip-tls-verify",
    "user": "--user",
}


def find_existing(session: Session, scope: Scope, name: str | None) -> TaskStatus | None:
    """Return the newest unfinished development pod of this name."""
    tasks = find.list_tasks(session, scope)
    pods = (task for task in tasks if task.name == name and task.interactive and not task.over)
    return next(pods, None)


def public_key(path: str | None) -> PublicKey:
    """Read the public key of a file, or the first one in ~/.ssh. Raises UserError."""
    candidates = [Path(path)] if path else [Path.home() / ".ssh" / name for name in _KEYS]
    file = next((candidate for candidate in candidates if path or candidate.is_file()), None)
    if file is None:
        raise UserError("no public key in ~/.ssh", 'create one: run "ssh-keygen -t ed25519"')
    try:
        text = file.read_text(errors="replace")
    except OSError as error:
        raise UserError(f"{file}: {bounded.reason(error)}") from error
    match = _PUBLIC_KEY.fullmatch(text)
    if not match:  # the content is not quoted: it may be a private key
        raise UserError(f"{file}: is not a public key", "choose one with --public-key FILE")
    identity = str(file.with_suffix("").absolute()) if file.suffix == ".pub" else ""
    return PublicKey(match[1], identity)


def login(session: Session, task: TaskStatus) -> SshLogin:
    """Ask the pod how to log in, through exec. Raises UserError if it cannot serve ssh."""
    node = execute.node_of_rank(task, 0)
    program = execute.task_environment(session, task).program(node, [*_CHECK, "sh", SSHD])
    out = FirstBytes()
    err = FirstBytes()
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
    return SshLogin(match["user"].decode(), match["key"].decode())


def save(host: SshHost, command: Sequence[str], *, install: bool) -> str:
    """Save the host key of the pod, and return the entry, or where it is installed.

    `command` runs a program in the pod. To `install` is to write the entry to a file that
    ~/.ssh/config includes. Raises UserError.
    """
    ssh = Path.home() / ".ssh"
    folder = Folder(ssh / "kubectl-sky")
    known_hosts = _write(folder, f"{host.alias}.known_hosts", host.known_hosts)
    entry = host.entry(command, known_hosts)
    if not install:
        return entry.rstrip()
    path = _write(folder, f"{host.alias}.config", entry)
    _include(ssh / "config")
    return f"{path} written"


def _write(folder: Folder, name: str, text: str) -> Path:
    try:
        folder.write(name, text.encode())
    except OSError as error:
        raise UserError(f"{folder.path / name}: {bounded.reason(error)}") from None
    return folder.path / name


def _include(config: Path) -> None:
    try:
        text = config.read_text(encoding="utf-8", errors="surrogateescape")
    except FileNotFoundError:
        text = ""
    except OSError as error:
        raise UserError(f"{config}: {bounded.reason(error)}") from None
    if _INCLUDE in text.splitlines():
        return
    new = f"{_INCLUDE}\n\n{text}".encode(errors="surrogateescape")  # first: ssh takes first values
    try:
        private.replace(config.resolve(), new)  # a link, such as to a repository of settings, stays
    except OSError as error:
        raise UserError(f"{config}: {bounded.reason(error)}") from None


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
