"""Objects with files that several tasks share: sent once, owned by the Jobs of all of them."""

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
    """Return the metadata of those that are there and stay, by name.

    Raises UserError where one of them holds something else than its name says.
    """
    with ThreadPoolExecutor(_WORKERS) as pool:
        found = pool.map(lambda manifest: _metadata(session, manifest.object), wanted)
        return {one["name"]: one for one in found if one and not one.get("deletionTimestamp")}


def accept(manifest: Json, live: Json) -> None:
    """Raise UserError unless an object that exists is what would be created."""
    reasons = foreign(manifest, live)
    if live["metadata"].get("deletionTimestamp"):
        reasons = ["it is being deleted"]
    if reasons:
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        more = f" and {len(reasons) - 1} more" if reasons[1:] else ""
        raise UserError(
            f"{name} already exists and was not created by this task: {reasons[0]}{more}",
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
    """Send what is not there, and hand out all that is wanted.

    If what follows fails, what was created is removed again, unless another task uses it by then.
    """
    missing = [one.object for one in wanted if one.object["metadata"]["name"] not in there]
    applied = apply_all(session, [missing], dry_run=dry_run, workers=_WORKERS, send=_send)
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
        if _send(session, anew, dry_run=False).status != HTTPStatus.CREATED:  # another task did so
            objects.amend(session, item, body, "strategic")


def _metadata(session: Session, item: Json) -> Json | None:
    """Return the metadata of an object that has the content of a manifest; None without one.

    The name is a hash of the content, but anybody can create an object of any name.
    """
    kind, metadata = objects.known_kind(item), item["metadata"]
    try:
        live = objects.get(session, kind, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None
    if not live["metadata"].get("deletionTimestamp"):
        accept(item, live)
    return dict(live["metadata"])
