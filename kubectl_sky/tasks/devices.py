"""Read the cluster nodes with the devices of their DRA drivers."""

from contextlib import suppress

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden, NotServed
from kubectl_sky.plan.devices import Device, DeviceNode, read_devices, with_devices
from kubectl_sky.words import kinds


def list_cluster_nodes(session: Session) -> list[DeviceNode]:
    """Return the cluster nodes; devices count as allocatable. Raises Forbidden for the nodes."""
    with parallel.pool(2) as pool:
        nodes = pool.submit(CoreManager(session).list_nodes)
        devices = pool.submit(list_devices, session)
        return with_devices(nodes.result(), devices.result())


def list_devices(session: Session) -> list[Device]:
    """Return the accelerators of DRA drivers; none without the API or the right to read it.

    Lists ResourceSlices, which are large, only if there is a DeviceClass.
    """
    with suppress(Forbidden, NotServed):
        classes = objects.list_all(session, kinds.DEVICE_CLASS)
        if classes:
            return read_devices(classes, objects.list_all(session, kinds.RESOURCE_SLICE))
    return []
