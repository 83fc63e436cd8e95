"""The drivers of local clusters, by name."""

from collections.abc import Callable, Mapping

from kubectl_sky.local.driver import Driver
from kubectl_sky.local.k3d import K3d
from kubectl_sky.local.kind import Kind
from kubectl_sky.local.minikube import Minikube
from kubectl_sky.local.place import Place
from kubectl_sky.local.practice import Practice
from kubectl_sky.local.process import Background
from kubectl_sky.local.program import Shell

DEFAULT = "practice"


def _shell(place: Place) -> Shell:
    """Return a shell whose programs only change a kubeconfig of their own."""
    return Shell(place.folder / "kubeconfig-of-the-program")


DRIVERS: Mapping[str, Callable[[Place], Driver]] = {
    "practice": lambda place: Practice(Background(place.folder / "practice")),
    "kind": lambda place: Kind(_shell(place)),
    "k3d": lambda place: K3d(_shell(place)),
    "minikube": lambda place: Minikube(_shell(place)),
}
