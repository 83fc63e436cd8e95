"""The drivers of local clusters, by name."""

from collections.abc import Callable, Mapping

from kubectl_sky.local.driver import Driver
from kubectl_sky.local.k3d import K3d
from kubectl_sky.local.kind import Kind
from kubectl_sky.local.minikube import Minikube
from kubectl_sky.local.practice import Practice
from kubectl_sky.local.process import Background
from kubectl_sky.local.program import Shell
from kubectl_sky.local.state_dir import StateDir

DEFAULT = "practice"


def _shell(state_dir: StateDir) -> Shell:
    """Return a shell whose programs only change a kubeconfig of their own."""
    return Shell(state_dir.folder / "kubeconfig-of-the-program")


DRIVERS: Mapping[str, Callable[[StateDir], Driver]] = {
    "practice": lambda state_dir: Practice(Background(state_dir.folder / "practice")),
    "kind": lambda state_dir: Kind(_shell(state_dir)),
    "k3d": lambda state_dir: K3d(_shell(state_dir)),
    "minikube": lambda state_dir: Minikube(_shell(state_dir)),
}
