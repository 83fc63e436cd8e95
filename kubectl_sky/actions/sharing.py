"""Objects with files that several tasks share: sent once, owned by the Jobs of all of them."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import NotFound, SkyError
from kubectl_sky.render.manifests import Manifest

_WORKERS = 8


def present(session: Session, wanted: Sequence[Manifest]) -> dict[str, Json]:
    """Return the metadata of those that are there and stay, by name."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        found = pool.map(lambda manifest: _metadata(session, manifest.object), wanted)
        return {one["name"]: one for one in found if one and not one.get("deletionTimestamp")}


def owners(metadata: Json) -> set[str]:
    """Return the uids of the Jobs that keep an object alive."""
    return {owner["uid"] for owner in metadata.get("ownerReferences") or ()}


@contextmanager
def sent(
    session: Session, wanted: Sequence[Manifest], there: Mapping[str, Json], dry_run: bool
) -> Iterator[list[Json]]:
    """Send what is not there, and hand out all that is wanted.

    If what follows fails, what was created is removed again, unless another task uses it by then.
    """
    missing = [one.object for one in wanted if one.object["metadata"]["name"] not in there]
    applied = apply_all(
        session, [missing], dry_run=dry_run, workers=_WORKERS, send=objects.send_once
    )
    try:
        yield [one.object for one in wanted]
    except (SkyError, KeyboardInterrupt):
        for done in applied:
            if done.created and not dry_run:
                objects.delete_unchanged(session, done.object)
        raise


def own(session: Session, item: Json, jobs: Sequence[Json]) -> None:
    """Add Jobs to the owners of an object; make it anew where its last owner took it along."""
    body = {"metadata": {"ownerReferences": list(jobs)}}
    try:
        # strategic: the owners are added to those that there are, by uid
        objects.amend(session, item, body, "strategic")
    except NotFound:
        anew = item | {"metadata": item["metadata"] | body["metadata"]}
        if objects.send_once(session, anew).status != HTTPStatus.CREATED:  # another task did so
            objects.amend(session, item, body, "strategic")


def _metadata(session: Session, item: Json) -> Json | None:
    kind, metadata = objects.known_kind(item), item["metadata"]
    try:
        return objects.metadata(session, kind, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None
