"""Run the credential plugin of a kubeconfig's user: its key `exec`."""

import json
import signal
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

from kubernetes.config import ConfigException
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.kube_config import ConfigNode

from kubectl_sky.cluster.errors import one_line
from kubectl_sky.errors import ClusterError

Entry = dict[str, Any]

_CERTIFICATES = ("client-certificate", "client-key")
_CA = "certificate-authority"
_CLUSTER_INFO = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    f"{_CA}-data",
    "proxy-url",
    "disable-compression",
)
_CONFIG = "client.authentication.k8s.io/exec"  # the extension that is for plugins
_NEVER = "Never"
_ALWAYS = "Always"
_BY_HAND = "run the plugin by hand: exec in `kubectl config view --minify` shows how"


def run(plugin: Entry, path: str, cluster: Entry) -> Entry:
    """Run a plugin of the kubeconfig `path`; return a user's entry. Raises ClusterError.

    As in kubectl, without a time limit: the user's own program may wait for a login in a browser.
    """
    command = str(plugin.get("command"))
    try:
        provider = ExecProvider(ConfigNode("exec", plugin), str(Path(path).absolute().parent))
    except ConfigException as error:
        why = str(error).removeprefix("exec: ")
        raise ClusterError(f"the credential plugin {command} is incomplete: {why}") from None

    interactive = _is_interactive(plugin, command)
    spec: Entry = {"interactive": interactive}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = _describe(cluster)
    request = {"apiVersion": provider.api_version, "kind": "ExecCredential", "spec": spec}
    provider.env["KUBERNETES_EXEC_INFO"] = json.dumps(request)

    output = _run(provider, plugin, interactive=interactive)
    return _read(output, command, str(provider.api_version))


def _is_interactive(plugin: Entry, command: str) -> bool:
    """Whether a plugin may read from the terminal, as kubectl decides. Raises ClusterError."""
    mode = plugin.get("interactiveMode")
    terminal = bool(sys.stdin and sys.stdin.isatty())
    if mode == _ALWAYS and not terminal:
        raise ClusterError(
            f"the credential plugin {command} needs a terminal: stdin is not a terminal",
            "run the command in a terminal",
        )
    return terminal and mode != _NEVER


def _describe(cluster: Entry) -> Entry:
    """Return a cluster's entry as plugins get it, with the CA as data."""
    info = {key: cluster[key] for key in _CLUSTER_INFO if key in cluster}
    if _CA in cluster and f"{_CA}-data" not in info:
        info[f"{_CA}-data"] = b64encode(Path(cluster[_CA]).read_bytes()).decode()
    for extension in cluster.get("extensions") or ():
        if extension.get("name") == _CONFIG:
            info["config"] = extension.get("extension")
    return info


def _run(provider: ExecProvider, plugin: Entry, *, interactive: bool) -> str:
    """Run the plugin and return what it prints; a user at a terminal sees its messages."""
    command = plugin["command"]
    visible = interactive or bool(sys.stderr and sys.stderr.isatty())
    stdin = None if interactive else subprocess.DEVNULL
    stderr = None if visible else subprocess.PIPE
    try:
        done = subprocess.run(
            provider.args,
            cwd=provider.cwd,
            env=provider.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        hint = one_line(plugin.get("installHint")) or "install it, or correct its path"
        raise ClusterError(f"the credential plugin {command} is not installed", hint) from None
    except OSError as error:
        why = error.strerror
        raise ClusterError(f"the credential plugin {command} cannot be run: {why}") from None
    if not done.returncode:
        return done.stdout

    why = f"exit code {done.returncode}"
    if done.returncode < 0:
        why = signal.Signals(-done.returncode).name
    lines = (done.stderr or "").strip().splitlines()
    last = f": {one_line(lines[-1])}" if lines else ""
    raise ClusterError(
        f"the credential plugin {command} failed ({why}){last}", f"log in again, or {_BY_HAND}"
    )


def _read(output: str, command: str, version: str) -> Entry:
    """Convert an ExecCredential to a user's entry. Raises ClusterError."""
    try:
        credential = json.loads(output)
        why = _find_fault(credential, version)
    except (ValueError, RecursionError):
        why = "it prints no JSON"
    if why:
        raise ClusterError(f"the credential plugin {command} gives no credentials: {why}", _BY_HAND)

    status = credential["status"]
    user: Entry = {"token": str(status["token"])} if status.get("token") else {}
    if status.get("clientCertificateData"):
        pems = (status["clientCertificateData"], status["clientKeyData"])
        for name, pem in zip(_CERTIFICATES, pems, strict=True):
            user[f"{name}-data"] = b64encode(str(pem).encode()).decode()
    return user


def _find_fault(credential: Any, version: str) -> str:
    """Return what is wrong with the answer of a plugin, "" for nothing."""
    if not isinstance(credential, dict) or credential.get("kind") != "ExecCredential":
        return "it prints JSON that is not an ExecCredential"
    if credential.get("apiVersion") != version:
        actual = one_line(credential.get("apiVersion"))
        return f'it answers in apiVersion "{actual}", the kubeconfig asks for "{version}"'
    status = credential.get("status")
    if not isinstance(status, dict):
        return "its ExecCredential has no status"
    if bool(status.get("clientCertificateData")) != bool(status.get("clientKeyData")):
        return "it returns only one of certificate and key"
    if not (status.get("token") or status.get("clientKeyData")):
        return "its ExecCredential has neither token nor certificate"
    return ""
