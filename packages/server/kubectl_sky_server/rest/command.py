"""`kubectl sky api`."""

import os
from collections.abc import Mapping
from typing import Any

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import UserError
from kubectl_sky_server.install import flags as install_flags

_OF_INSTALL = ("install", "uninstall", "image", "host_name", "api_server_ports")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@commands.command(
    "api",
    examples=[
        "api",
        "api --host 0.0.0.0 --tls-cert tls.crt --tls-key tls.key",
        "api --install --host-name sky.example.com | kubectl apply -f -",
    ],
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port (default: $KUBECTL_SKY_API_PORT, then $K8S_CLI_API_PORT, then 8000).",
)
@click.option("--tls-cert", metavar="FILE", help="Certificate chain; reloaded when it changes.")
@click.option("--tls-key", metavar="FILE", help="Private key of the certificate.")
@click.option("--behind-proxy", is_flag=True, help="A proxy, such as an Ingress, ends TLS.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Accept this Host header; repeatable (default: the names of loopback, else any).",
)
@click.option(
    "--insecure-trust-x-user",
    "trust_x_user",
    is_flag=True,
    help="Believe the header X-User and act with your own credentials; loopback only.",
)
@click.option(
    "--audit-log",
    metavar="FILE",
    help="Append a JSON line per request; - is stdout.",
)
@click.option("--install", is_flag=True, help="Print the manifests that run it in a cluster.")
@click.option(
    "--uninstall", is_flag=True, help="Print what of them `kubectl delete -f -` has to delete."
)
@install_flags.image
@install_flags.api_server_ports
@click.option("--host-name", metavar="NAME", help="Host name of --install, as your Ingress has it.")
@options.cluster
def command(host: str, port: int | None, cluster: options.ClusterFlags, **flags: Any) -> None:
    """Serve the REST API: each caller acts with a bearer token of the cluster, and RBAC decides.

    The kubeconfig gives the address and the CA of the API server. Its credentials are not used for
    callers.

    With --install, nothing is served or changed. The namespace is that of -n, or kubectl-sky.
    """
    audit_log = str(flags["audit_log"] or "")
    if any(flags[name] for name in _OF_INSTALL):
        if not (flags["install"] or flags["uninstall"]):
            raise UserError("--image, --host-name and --api-server-port are for --install")
        from kubectl_sky.actions.config import preferences
        from kubectl_sky.render import manifests
        from kubectl_sky_server.install import action
        from kubectl_sky_server.install.model import server_install

        read = install_flags.read(cluster, flags["image"], flags["api_server_ports"])
        prometheus = preferences().prometheus or ""
        values = server_install(
            read, flags["host_name"], audit_log=audit_log, prometheus=prometheus
        )
        items = action.server(values)
        if flags["uninstall"]:
            doomed = action.list_to_delete(items, [action.sessions(values)])
            output.out(output.data(doomed, "yaml"))
        else:
            output.out(manifests.as_yaml(items).rstrip("\n"))
        return
    from kubectl_sky_server.rest import audit
    from kubectl_sky_server.rest.config import LOOPBACK, SESSION_KEYS, Config
    from kubectl_sky_server.rest.serve import Listener, serve

    loopback = host in _LOOPBACK
    certificate = flags["tls_cert"]
    key = flags["tls_key"]
    _check_exposure(host, bool(certificate), bool(key), flags)
    log = audit.open_log(audit_log) if audit_log else None
    own_hosts = LOOPBACK if loopback else ()
    config = Config(
        cluster.flags(),
        hosts=(*own_hosts, *(str(name).lower() for name in flags["hosts"])),
        trust_x_user=bool(flags["trust_x_user"]),
        session_keys=os.environ.get(SESSION_KEYS, "").replace(",", " ").split(),
        behind_proxy=bool(flags["behind_proxy"]),
        audit=log,
    )
    listener = Listener(
        host, _port(port), *(str(path) if path else "" for path in (certificate, key))
    )

    def listening(url: str) -> None:
        output.note(f"Serving on {url}; stop it with Ctrl-C")
        if not config.session_keys:
            output.note(f"sessions of browsers end with this server: ${SESSION_KEYS} is not set")

    serve(config, listener, output.note, listening)


def _check_exposure(host: str, certificate: bool, key: bool, flags: Mapping[str, object]) -> None:
    """Refuse flags that would expose tokens or your credentials. Raises UserError."""
    loopback = host in _LOOPBACK
    behind_proxy = bool(flags["behind_proxy"])
    if certificate != key:
        raise UserError("--tls-cert and --tls-key are used together")

    if not (loopback or certificate or behind_proxy):
        raise UserError(
            f"--host {host} without TLS would send tokens in plain text",
            "add --tls-cert and --tls-key, or --behind-proxy if a proxy ends TLS",
        )

    if not flags["trust_x_user"]:
        return
    if not loopback or behind_proxy:
        raise UserError(
            "--insecure-trust-x-user requires a loopback --host, without --behind-proxy"
        )

    output.warning(
        "anybody on this machine can act as any user, with your credentials"
        " (--insecure-trust-x-user)"
    )


def _port(flag: int | None) -> int:
    """Return the port of the flag, else of the environment. Raises UserError."""
    if flag is not None:
        return flag
    for name in ("KUBECTL_SKY_API_PORT", "K8S_CLI_API_PORT"):
        text = os.environ.get(name)
        if text:
            if not text.isdecimal() or int(text[:9]) > 65535:
                raise UserError(f"{name}={text}: not a port")
            return int(text)
    return 8000
