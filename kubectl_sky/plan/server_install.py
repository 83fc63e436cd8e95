"""What `api --install` renders: the server in a cluster, without any rights of its own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kubectl_sky import __version__
from kubectl_sky.errors import UserError

DEFAULT_NAMESPACE = "kubectl-sky"
DEFAULT_IMAGE = f"kubectl-sky:{__version__}"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOUNT = "/etc/kubectl-sky-server"


@dataclass(frozen=True)
class ServerInstall:
    """The values of the server's objects; `host_name` is that of the Ingress, or empty."""

    namespace: str = DEFAULT_NAMESPACE
    image: str = DEFAULT_IMAGE
    host_name: str = ""
    name: str = "kubectl-sky-api"
    port: int = 8000
    mount: str = _MOUNT

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of all objects: none."""
        return {}

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of all objects."""
        return {"app.kubernetes.io/name": self.name, "app.kubernetes.io/version": __version__}

    @property
    def selector(self) -> Mapping[str, str]:
        """The label that selects the pods."""
        return {"app.kubernetes.io/name": self.name}

    @property
    def service_host(self) -> str:
        """The name of the Service, which proxies in the cluster may send as Host."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def arguments(self) -> list[str]:
        """The arguments of the container."""
        hosts = [self.host_name, self.service_host] if self.host_name else []
        allowed = [word for host in hosts for word in ("--allow-host", host)]
        return ["api", "--host", "0.0.0.0", "--port", str(self.port), "--behind-proxy", *allowed]

    @property
    def kubeconfig_path(self) -> str:
        """The path of the kubeconfig in the container."""
        return f"{self.mount}/kubeconfig"

    @property
    def kubeconfig(self) -> str:
        """A kubeconfig with the address and CA of the API server, and no credentials."""
        return (
            "apiVersion: v1\n"
            "kind: Config\n"
            "clusters:\n"
            "  - name: here\n"
            "    cluster:\n"
            "      server: https://kubernetes.default.svc\n"
            f"      certificate-authority: {self.mount}/ca.crt\n"
            "contexts:\n"
            "  - name: here\n"
            "    context: {cluster: here}\n"
            "current-context: here\n"
        )


def server_install(
    namespace: str | None, image: str | None, host_name: str | None
) -> ServerInstall:
    """Return the values of the flags. Raises UserError for an invalid name."""
    values = ServerInstall(
        namespace or DEFAULT_NAMESPACE, image or DEFAULT_IMAGE, (host_name or "").lower()
    )
    if not _LABEL.fullmatch(values.namespace):
        raise UserError(f'"{namespace}" is not a valid namespace')
    if values.host_name and not _HOST.fullmatch(values.host_name):
        raise UserError(f'"{host_name}" is not a valid host name', "example: sky.example.com")
    if not re.fullmatch(r"[^\s-][^\s]{0,1000}", values.image):
        raise UserError(f'"{image}" is not a valid image')
    return values
