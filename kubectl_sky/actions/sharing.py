"""Share objects with local files between tasks: created once, owned by all Jobs."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import NotFound, SkyError, UserError
from kubectl_sky.observe.difference import foreign
from kubectl_sky.render.manifests import Manifest

_WORKERS = 8


def present(session: Session, wanted: Sequence[Manifest]) -> dict[str, Json]:
    """Return the metadata of existing objects by name, without those being deleted.

    Raises UserError if the content of one does not match its name.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        existing = pool.map(lambda manifest: _metadata(session, manifest.object), wanted)
        return {
            metadata["name"]: metadata
            for metadata in existing
            if metadata and not metadata.get("deletionTimestamp")
        }


def accept(manifest: Json, live: Json) -> None:
    """Raise UserError unless an existing object equals what would be created."""
    reasons = foreign(manifest, live)
    if live["metadata"].get("deletionTimestamp"):
        reasons = ["it is being deleted"]
    if reasons:
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        suffix = f" and {len(reasons) - 1} more" if reasons[1:] else ""
        raise UserError(
            f"{name} already exists and was not created by this task: {reasons[0]}{suffix}",
            "delete it if it is yours, or submit with another --id",
        )


_send = partial(objects.send_new, accept=accept)


def owners(metadata: Json) -> set[str]:
    """Return the uids of the Jobs that keep an object alive."""
    return {owner["uid"] for owner in metadata.get("ownerReferences") or ()}


@contextmanager
def sent(
    session: Session, wanted: Sequence[Manifest], there: Mapping[str, Json], dry_run: bool
) -> Iterator[list[Json]]:
    """Create the missing objects, then run the body with all of them.

    If the body fails, the created objects are deleted unless another task uses them by then.
    """
    missing = [
        manifest.object for manifest in wanted if manifest.object["metadata"]["name"] not in there
    ]
    applied = apply_all(session, [missing], dry_run=dry_run, workers=_WORKERS, send=_send)
    try:
        yield [manifest.object for manifest in wanted]
    except (SkyError, KeyboardInterrupt):
        for result in applied:
            if result.created and not dry_run:
                objects.delete_unchanged(session, result.object)
        raise


def own(session: Session, item: Json, jobs: Sequence[Json]) -> None:
    """Add Jobs to the owners of an object.

    Create it again if it was garbage-collected with its last owner.
    """
    body = {"metadata": {"ownerReferences": list(jobs)}}
    try:
        # strategic merge: owners are added to the existing ones, by uid
        objects.amend(session, item, body, "strategic")
    except NotFound:
        replacement = item | {"metadata": item["metadata"] | body["metadata"]}
        if (
            _send(session, replacement, dry_run=False).status != HTTPStatus.CREATED
        ):  # another task created it
            objects.amend(session, item, body, "strategic")


def _metadata(session: Session, item: Json) -> Json | None:
    """Fetch the metadata of the object of a manifest; None if not found.

    The name is a hash of the content, but any user can create an object with any name. So the
    content is compared, unless the object is being deleted.
    """
    kind, metadata = objects.known_kind(item), item["metadata"]
    try:
        live = objects.get(session, kind, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None
    if not live["metadata"].get("deletionTimestamp"):
        accept(item, live)
    return dict(live["metadata"])
