"""The flags of what installs programs of ours into a cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import output
from kubectl_sky.cli.options import ClusterFlags
from kubectl_sky.errors import SkyError

if TYPE_CHECKING:
    from kubectl_sky_server.install.model import Flags

image = click.option(
    "--image",
    help="Image of the pods: NAME@sha256:DIGEST (default: that of this version).",
)
api_server_ports = click.option(
    "--api-server-port",
    "api_server_ports",
    type=click.IntRange(1, 65535),
    multiple=True,
    metavar="PORT",
    help="Port of the API server for the NetworkPolicy; repeatable (default: read from the"
    " cluster).",
)


def read(cluster: ClusterFlags, image: str | None, api_server_ports: Sequence[int]) -> "Flags":
    """Return the flags. Without ports they are read, or assumed if the cluster does not answer."""
    from kubectl_sky_server.install import action
    from kubectl_sky_server.install.model import API_SERVER_PORTS, Flags

    ports = api_server_ports
    if not ports:
        try:
            ports = action.api_server_ports(cluster.session())
        except SkyError as error:
            ports = API_SERVER_PORTS
            shown = " and ".join(map(str, ports))
            output.warning(
                f"the NetworkPolicy allows the API server at ports {shown}: {error.what};"
                " use --api-server-port for others"
            )
    return Flags(cluster.namespace, image, ports)
