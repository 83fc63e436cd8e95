"""`dev`: run a development pod, and write the ssh configuration that reaches it."""

import io
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubectl_sky import bounded, names
from kubectl_sky.actions.flags import Overrides
from kubectl_sky.actions.taskfile import Source
from kubectl_sky.errors import UserError
from kubectl_sky.spec.lifecycle import DevPod

NO_FILE = "<dev>"  # the file name in messages on a pod that has no task file
SSHD = f"{names.SCRIPTS_FOLDER}/sshd.sh"
_DRAFT = b"name: dev\n"
_MIN_SECONDS = 60
_MAX_SECONDS = 20_000 * 86_400  # Kubernetes counts seconds in 32 bits
_KEYS = ("id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub")  # in the order that ssh prefers
_MAX_KEY_BYTES = 16 * 1024
_PUBLIC_KEY = re.compile(r"((?:ssh|ecdsa|sk)-[\w.@-]+ [A-Za-z0-9+/]+=*)(?: .*)?\n*", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}", re.ASCII)
_ALIAS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def limits(lifetime: float | None, idle: float | None) -> DevPod:
    """Return the limits of a development pod from seconds. Raises UserError."""
    for flag, seconds in (("--for", lifetime), ("--idle", idle)):
        if seconds is not None and not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
            raise UserError(f"{flag}: expected 1m to 20000d", f"for example: {flag} 1h")
    return DevPod(None if lifetime is None else int(lifetime), None if idle is None else int(idle))


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
    return PublicKey(match[1], str(file.with_suffix("")) if file.suffix == ".pub" else "")


def ssh_config(alias: str, user: str, flags: Sequence[str], key: PublicKey) -> str:
    """Return the Host entry of a development pod; `flags` name the cluster and the task."""
    command = ["kubectl", "sky", "exec", *flags, "-i", "-q", "--", "/bin/sh", SSHD, key.text]
    identity = [f'  IdentityFile "{key.identity}"'] if key.identity else []
    lines = [
        f"Host {alias}",
        f"  User {user}",
        f"  ProxyCommand {shlex.join(command).replace('%', '%%')}",
        *identity,
        "  # Kubernetes authenticates the pod, and each new pod has a new host key.",
        "  StrictHostKeyChecking no",
        "  UserKnownHostsFile /dev/null",
        "  LogLevel ERROR",
    ]
    return "\n".join(lines)


def is_user(name: str) -> bool:
    """Return whether a pod's answer can be the name of a user in an ssh configuration."""
    return _USER.fullmatch(name) is not None


def alias_of(reference: str, task_id: str) -> str:
    """Return the name of the host: what the user typed, if ssh accepts it."""
    return reference if _ALIAS.fullmatch(reference) else task_id
