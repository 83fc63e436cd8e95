"""What `api --install` renders: the server in a cluster, without any rights of its own."""

from dataclasses import dataclass

from kubectl_sky.errors import UserError
from kubectl_sky.plan.install import DEFAULT_IMAGE, DEFAULT_NAMESPACE, SERVER, Install
from kubectl_sky.words import names

_MOUNT = "/etc/kubectl-sky-server"


@dataclass(frozen=True)
class ServerInstall(Install):
    """The values of the server's objects; `host_name` is that of the Ingress, or empty."""

    name: str = SERVER
    host_name: str = ""
    audit_log: str = ""
    port: int = 8000
    mount: str = _MOUNT

    def __post_init__(self) -> None:
        """Raise UserError for an invalid value."""
        super().__post_init__()
        if self.host_name and not names.SUBDOMAIN.fullmatch(self.host_name):
            raise UserError(
                f'"{self.host_name}" is not a valid host name', "example: sky.example.com"
            )

    @property
    def ingress_ports(self) -> tuple[int]:
        """The port that other pods may reach."""
        return (self.port,)

    @property
    def service_host(self) -> str:
        """The name of the Service, which proxies in the cluster may send as Host."""
        return f"{self.name}.{self.namespace}.svc"

    @property
    def arguments(self) -> list[str]:
        """The arguments of the container."""
        hosts = [self.host_name, self.service_host] if self.host_name else []
        allowed = [word for host in hosts for word in ("--allow-host", host)]
        audit = ["--audit-log", self.audit_log] if self.audit_log else []
        listen = ["--host", "0.0.0.0", "--port", str(self.port), "--behind-proxy"]
        return ["api", *listen, *allowed, *audit]

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
    namespace: str | None, image: str | None, host_name: str | None, *, audit_log: str = ""
) -> ServerInstall:
    """Return the values of the flags. Raises UserError for an invalid name."""
    return ServerInstall(
        namespace=namespace or DEFAULT_NAMESPACE,
        image=image or DEFAULT_IMAGE,
        host_name=(host_name or "").lower(),
        audit_log=audit_log,
    )
