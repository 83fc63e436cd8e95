"""The batch API: Jobs."""

from kubectl_sky import kinds
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.objects import Propagation
from kubectl_sky.cluster.session import Json, Session

GRACE = 5  # seconds that a task gets between SIGTERM and SIGKILL


class BatchManager:
    """What the project does with `/apis/batch/v1`; every method raises ClusterError."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def create_job(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Create a Job. Raises Conflict if it exists."""
        return objects.create(self._session, manifest, dry_run=dry_run)

    def delete_job(
        self,
        name: str,
        namespace: str | None = None,
        *,
        propagation: Propagation = "Foreground",
        grace: int | None = GRACE,
    ) -> bool:
        """Delete a Job and its pods; False if it was gone already.

        With Foreground the Job is there until its pods are gone, with Background it goes first.
        """
        return objects.delete(
            self._session, kinds.JOB, name, namespace, propagation=propagation, grace=grace
        )

    def read_job_status(self, name: str, namespace: str | None = None) -> Json:
        """Return a Job's status: conditions, and how many pods are active, succeeded, failed."""
        job = objects.get(self._session, kinds.JOB, name, namespace)
        return dict(job.get("status") or {})

    def list_jobs(self, namespace: str | None = None, label_selector: str = "") -> list[Json]:
        """Return Jobs; a namespace of None means all namespaces."""
        return objects.list_all(self._session, kinds.JOB, namespace, label_selector=label_selector)
