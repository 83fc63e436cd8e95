"""Development pods: the task that runs setup and stays, and the Host entry for ssh."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.spec.task import Task
from kubectl_sky.words import assets, names
from kubectl_sky.words.settings import Settings
from kubectl_sky.workloads.decide import TaskEntry

SSHD = f"{names.SCRIPTS_FOLDER}/sshd.sh"
# Pulling the image and setup come before the lifetime, which stay.sh measures. If they take longer
# than this, or stay.sh is killed, the kubelet ends the pod.
_START_SECONDS = 3600
_MIN_SECONDS = 60
_UNITS = ((3600, "h"), (60, "m"), (1, "s"))
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


class Expiry(Struct, frozen=True):
    """When a development pod ends by itself; None for no limit.

    `lifetime` is in seconds after setup, `idle` in seconds without use.
    """

    lifetime: int | None = None
    idle: int | None = None


def expiry(lifetime: float | None, idle: float | None, settings: Settings) -> Expiry:
    """Return the expiry by flags in seconds, or the settings; 0 is no limit. Raises UserError."""
    for flag, seconds in (("--for", lifetime), ("--idle", idle)):
        if seconds and seconds < _MIN_SECONDS:
            raise UserError(f"{flag}: expected 1m or more, or 0 for no limit")
    lifetime = settings.dev.get("for") if lifetime is None else lifetime
    idle = settings.dev.get("idle") if idle is None else idle
    return Expiry(int(lifetime or 0) or None, int(idle or 0) or None)


def only_pod(
    entries: Sequence[TaskEntry], expiry: Expiry, *, is_named: bool
) -> tuple[TaskEntry, ...]:
    """Return the task of a file as a development pod. Raises UserError for several tasks.

    If the file has a program, the name of its task stays that of the program, unless a flag has
    `is_named` the pod.
    """
    if len(entries) > 1:
        what = f"a development pod is one task, and the file has {len(entries)}"
        raise UserError(what, "use `kubectl sky submit`")
    task = entries[0].task
    pod = dev_pod(task, expiry)
    if task.name and task.run and not is_named:
        pod = replace(pod, name=f"{task.name}-dev")
    return (replace(entries[0], task=pod),)


def dev_pod(task: Task, expiry: Expiry) -> Task:
    """Return the development pod of a task: one node that stays after setup, without `run`."""
    pod = task.kubernetes.pod
    if expiry.lifetime:
        deadline = {"activeDeadlineSeconds": expiry.lifetime + _START_SECONDS}
        pod = {**pod, "spec": deadline | (pod.get("spec") or {})}
    run = stay(expiry) if expiry.lifetime or expiry.idle else None
    return replace(
        task,
        num_nodes=1,
        run=run,
        stays=True,
        scripts={"sshd.sh": assets.read("runtime", "sshd.sh")},
        kubernetes=replace(task.kubernetes, pod=pod),
        notes=tuple(_notes(task, expiry)),
    )


def stay(expiry: Expiry) -> str:
    values = f"lifetime={expiry.lifetime or 0} idle={expiry.idle or 0}\n"
    return values + assets.read("runtime", "stay.sh")


def _notes(task: Task, expiry: Expiry) -> Iterator[str]:
    if task.run:
        yield "run: ignored by dev"
    if task.num_nodes > 1:
        yield "num_nodes: ignored by dev"
    ends = []
    if expiry.lifetime:
        ends.append(f"{_span(expiry.lifetime)} after setup")
    if expiry.idle:
        ends.append(f"after {_span(expiry.idle)} without exec sessions and CPU use")
    if ends:
        yield f"the development pod ends {', or '.join(ends)}"
    else:
        yield "the development pod stays up until it is stopped; --for and --idle limit it"


def _span(seconds: int) -> str:
    """Format a duration as the flags write it: 1h30m."""
    text = ""
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text


class PublicKey(Struct, frozen=True):
    """A public key without its comment, and the path of the private key beside it."""

    text: str
    identity: str


class SshLogin(Struct, frozen=True):
    """The user to log in as, and the host key of a development pod."""

    user: str
    host_key: str


class SshHost(Struct, frozen=True):
    """The Host entry of a development pod: the alias to connect to, and what it stands for."""

    alias: str
    task_id: str
    login: SshLogin
    key: PublicKey

    @property
    def known_hosts(self) -> str:
        return f"{self.task_id} {self.login.host_key}\n"

    def entry(self, command: Sequence[str], known_hosts: Path) -> str:
        """Return the entry; `command` runs a program in the pod. Raises UserError."""
        proxy = [*command, "-i", "-q", "--", "/bin/sh", SSHD, *self.key.text.split()]
        if not all(word.isprintable() for word in proxy):
            raise UserError("the connection options have control characters")

        key = self.key.identity
        identity = [f"  IdentityFile {_quote(key)}", "  IdentitiesOnly yes"] if key else []
        lines = [
            f"Host {self.alias}",
            f"  User {self.login.user}",
            f"  ProxyCommand {shlex.join(proxy).replace('%', '%%')}",
            *identity,
            f"  HostKeyAlias {self.task_id}",
            f"  UserKnownHostsFile {_quote(known_hosts.as_posix())}",
            "  StrictHostKeyChecking yes",
            "  ForwardAgent no",
            "  ServerAliveInterval 30",  # proxies close silent connections
        ]
        return "\n".join(lines) + "\n"


def alias_of(reference: str, task_id: str) -> str:
    """Return the name of the host: what the user typed, if ssh accepts it."""
    return reference if _ALIAS.fullmatch(reference) else task_id


def _quote(path: str) -> str:
    """Quote a path for ssh, which expands % and ${NAME}. Raises UserError."""
    if '"' in path or "${" in path or not path.isprintable():
        raise UserError(f"{path}: ssh cannot read a path with such characters")
    return '"' + path.replace("%", "%%") + '"'
