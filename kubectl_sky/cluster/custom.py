"""Custom objects: kinds that a controller brings to the cluster, such as MPIJob."""

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.batch import GRACE
from kubectl_sky.cluster.objects import Propagation
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import UserError
from kubectl_sky.kinds import Kind

SUPPORTED: tuple[Kind, ...] = tuple(
    sorted(
        (
            kind
            for kind in vars(kinds).values()
            if isinstance(kind, Kind)
            and "." in kind.group
            and not kind.group.endswith(".k8s.io")  # Kubernetes' own; `x-k8s.io` is not
        ),
        key=lambda kind: kind.kind,
    )
)


class CustomObjectsManager:
    """What the project does with custom objects; every method raises ClusterError.

    A kind whose controller is not installed is an error that says so.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Create an object of a supported kind. Raises Conflict if it exists, and UserError."""
        supported(str(manifest.get("kind")))
        return objects.create(self._session, manifest, dry_run=dry_run)

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Json:
        """Return one object. Raises NotFound."""
        return objects.get(self._session, kind, name, namespace)

    def list_all(
        self, kind: Kind, namespace: str | None = None, label_selector: str = ""
    ) -> list[Json]:
        """Return objects of a kind; a namespace of None means all namespaces."""
        return objects.list_all(self._session, kind, namespace, label_selector=label_selector)

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Foreground",
    ) -> bool:
        """Delete an object and what it owns; False if it was gone already."""
        return objects.delete(
            self._session, kind, name, namespace, propagation=propagation, grace=GRACE
        )


def supported(name: str) -> Kind:
    """Return the custom kind of this name, in any case, singular or plural. Raises UserError."""
    wanted = name.lower().replace("_", "")
    for kind in SUPPORTED:
        if wanted in (kind.kind.lower(), kind.plural):
            return kind
    known = ", ".join(kind.kind for kind in SUPPORTED)
    raise UserError(f"unsupported kind {name}", f"the supported custom kinds are: {known}")
