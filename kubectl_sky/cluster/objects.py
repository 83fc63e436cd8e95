"""Run the verbs of the Kubernetes API on any kind.

What is read is a value of the kind's type. What is written or compared is a plain dict: its name
has a manifest.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster.encoding import Whole, encode
from kubectl_sky.cluster.session import Answer, Json, Session
from kubectl_sky.errors import (
    ClusterError,
    Conflict,
    Expired,
    NotFound,
    Unprocessed,
    Unreachable,
    UserError,
)
from kubectl_sky.words import names
from kubectl_sky.words.answers import DeletionAnswer, Page, page_of
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.kinds import Kind, ReadKind, kind_of
from kubectl_sky.words.objects import AnyObject, Object

PAGE_SIZE = 500  # kubectl's

_MAX_PAGES = 300  # 150,000 objects: Kubernetes is made for as many pods
_MAX_LIST_BYTES = 2**30  # bytes of JSON
_MAX_KEPT_BYTES = 2**29  # of a list whose objects are all in memory
_LIST_SECONDS = 60.0  # that a list may take, and a second more for each page

Propagation = Literal["Background", "Foreground", "Orphan"]
Patch = Literal["merge", "strategic"]
T = TypeVar("T")
P = TypeVar("P")
Accept = Callable[[Json, Json], None]  # of a manifest and the existing object; may raise

_MANAGER = {"fieldManager": names.MANAGER}
_STRICT = _MANAGER | {"fieldValidation": "Strict"}
_METADATA_ONLY = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
_METADATA_LIST = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


def path(kind: Kind, namespace: str | None = None, name: str = "", sub: str = "") -> str:
    parts = ["/apis", kind.group, kind.version] if kind.group else ["/api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts += [kind.plural, quote(name, safe=""), sub]
    return "/".join(part for part in parts if part)


def get(session: Session, kind: ReadKind[T], name: str, namespace: str | None = None) -> T:
    url_path = path(kind, _namespace_for(session, kind, namespace), name)
    return session.send("GET", url_path, shape=kind.shape).body


def get_manifest(session: Session, kind: Kind, name: str, namespace: str | None = None) -> Json:
    """Return all fields of an object, to compare or to write it."""
    url_path = path(kind, _namespace_for(session, kind, namespace), name)
    return session.send("GET", url_path, shape=Whole(_type_of(kind))).body


def exists(session: Session, kind: Kind, name: str, namespace: str | None = None) -> bool:
    """Return whether an object exists; its content is not requested."""
    url_path = path(kind, _namespace_for(session, kind, namespace), name)
    try:
        session.send("GET", url_path, headers=_METADATA_ONLY, shape=Object)
    except NotFound:
        return False
    return True


def list_all(
    session: Session,
    kind: ReadKind[T],
    namespace: str | None = None,
    *,
    label_selector: str = "",
    field_selector: str = "",
) -> list[T]:
    """Return all objects that match the selectors; None means all namespaces."""
    return collect(session, kind, namespace, selectors(label_selector, field_selector))[0]


def list_metadata(
    session: Session, kind: Kind, namespace: str | None = None, *, label_selector: str = ""
) -> list[Object]:
    """Return the metadata of objects; nothing else is requested."""
    query = selectors(label_selector)
    wanted = _List(kind, namespace, query, page_of(Object), _METADATA_LIST)
    return _read(session, wanted, _whole)[0]


def list_manifests(
    session: Session, kind: Kind, namespace: str | None = None, *, label_selector: str = ""
) -> list[Json]:
    """Return all fields of objects, to compare or to write them."""
    page = Whole(page_of(_type_of(kind)))
    wanted = _List(kind, namespace, selectors(label_selector), page)
    return _read(session, wanted, _whole)[0]


def extract(
    session: Session,
    kind: ReadKind[T],
    namespace: str | None,
    query: dict[str, str],
    part: Callable[[T], P | None],
) -> list[P]:
    """Return the part of each object that `part` gives, without None.

    Only one page of the objects is in memory.
    """
    return _read(session, _List(kind, namespace, query, page_of(kind.shape)), part)[0]


def extract_metadata(
    session: Session,
    kind: Kind,
    namespace: str | None,
    query: dict[str, str],
    part: Callable[[Object], P | None],
) -> list[P]:
    """Return the parts of objects of which only the metadata is requested; see `extract`."""
    wanted = _List(kind, namespace, query, page_of(Object), _METADATA_LIST)
    return _read(session, wanted, part)[0]


def extract_manifests(
    session: Session,
    kind: Kind,
    namespace: str | None,
    query: dict[str, str],
    part: Callable[[Json], P | None],
) -> list[P]:
    """Return the parts of objects with all their fields; see `extract`."""
    wanted = _List(kind, namespace, query, Whole(page_of(_type_of(kind))))
    return _read(session, wanted, part)[0]


def selectors(labels: str = "", fields: str = "") -> dict[str, str]:
    pairs = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in pairs.items() if value}


def collect(
    session: Session, kind: ReadKind[T], namespace: str | None, query: dict[str, str]
) -> tuple[list[T], str]:
    """Return all objects of a query and the resourceVersion of the list."""
    return _read(session, _List(kind, namespace, query, page_of(kind.shape)), _whole)


class _List(Struct, frozen=True):
    """A list to request; `shape` is the type of a page."""

    kind: Kind
    namespace: str | None
    query: dict[str, str]
    shape: type | Whole
    headers: dict[str, str] | None = None


def _whole(item: T) -> T:
    return item


def _read(session: Session, wanted: _List, part: Callable[[T], P | None]) -> tuple[list[P], str]:
    """Return the parts of all objects of a list, and its resourceVersion.

    If the continue token expires between two pages, the list is read again from the start, in one
    page.
    """
    limit = _MAX_KEPT_BYTES if part is _whole else _MAX_LIST_BYTES

    def read(query: dict[str, str]) -> tuple[list[P], str]:
        parts = list[P]()
        newest = ""
        for items, version in _pages(session, replace(wanted, query=query), limit):
            parts += [value for item in items if (value := part(item)) is not None]
            newest = version
        return parts, newest

    try:
        return read({"limit": str(PAGE_SIZE)} | wanted.query)
    except Expired:
        return read({key: value for key, value in wanted.query.items() if key != "limit"})


def _pages(session: Session, wanted: _List, limit: int) -> Iterator[tuple[list[Any], str]]:
    """Yield the objects of each page, and the resourceVersion; `limit` bounds the bytes of all."""
    kind = wanted.kind
    type_fields = {"apiVersion": kind.api_version, "kind": kind.kind}
    url_path = path(kind, wanted.namespace)
    query = wanted.query
    headers = wanted.headers
    size = 0
    count = 0
    deadline = monotonic() + _LIST_SECONDS

    for number in range(_MAX_PAGES):
        answer = session.send("GET", url_path, query=query, headers=headers, shape=wanted.shape)
        page: Any = answer.body
        if isinstance(page, dict):
            page = convert(page, Page[Json])
            for item in page.items or ():  # the server omits them
                item |= type_fields
        items = page.items or []
        yield items, page.metadata.resource_version or ""

        size = size + answer.size
        count = count + len(items)
        token = page.metadata.continue_token
        if not token:
            return
        if size > limit or monotonic() > deadline + number:
            break
        query = query | {"continue": token}

    raise ClusterError(
        f"the list of {kind.resource} does not end: {count:,} objects, {size >> 20} MiB so far",
        "check the server's address in the kubeconfig",
    )


def create(session: Session, manifest: Json, *, dry_run: bool = False) -> Json:
    """Create an object. Dry runs are server-side. Raises Conflict if it exists."""
    return session.send(
        "POST",
        _path(session, manifest, name=""),
        query=_STRICT | _dry_run_query(dry_run),
        body=manifest,
        shape=Whole(_type_of(kind_of_known(manifest))),
    ).body


def create_or_accept(
    session: Session, manifest: Json, accept: Accept, *, dry_run: bool = False
) -> Answer[Json]:
    """Create an object; if it already exists, `accept` checks the existing one.

    It is read if the answer is lost, and sent again only if it does not exist.

    `accept` gets the manifest and the existing object, and raises to reject it. An existing object
    is never changed. The answer has only the object's metadata; its status is 201 if the object
    was created, otherwise 200.
    """
    retries = session.retries()
    shape = Whole(_type_of(kind_of_known(manifest)))
    is_second = False
    while True:
        try:
            return _create(session, manifest, dry_run)
        except Unprocessed:
            raise
        except (Conflict, Unreachable) as error:  # if the answer was lost, the object may exist
            problem = error

        try:
            answer = session.send("GET", _path(session, manifest), shape=shape)
            break
        except NotFound:
            if is_second and isinstance(problem, Conflict):
                raise problem from None
            if is_second and isinstance(problem, Unreachable):
                session.wait_or_raise(retries, problem)
            is_second = True
        except ClusterError as error:
            raise (problem if isinstance(problem, Unreachable) else error) from None

    accept(manifest, answer.body)
    body = manifest | {"metadata": answer.body["metadata"]}
    return replace(answer, body=body, retried=isinstance(problem, Unreachable))


def _create(session: Session, manifest: Json, dry_run: bool) -> Answer[Json]:
    """Create an object and return its metadata. Raises Conflict if it exists."""
    answer = session.send(
        "POST",
        _path(session, manifest, name=""),
        query=_STRICT | _dry_run_query(dry_run),
        body=manifest,
        headers=_METADATA_ONLY,
        shape=Whole(Object),
    )
    return replace(answer, body=manifest | {"metadata": answer.body["metadata"]})


def apply(
    session: Session,
    manifest: Json,
    *,
    manager: str = names.MANAGER,
    force: bool = True,
    dry_run: bool = False,
) -> Json:
    """Apply a manifest with server-side apply and return the object.

    Raises Conflict without `force` if another field manager has set one of the fields.
    """
    options = {"fieldManager": manager, "force": str(force).lower()}
    return session.send(
        "PATCH",
        _path(session, manifest),
        query=_STRICT | options | _dry_run_query(dry_run),
        body=encode(manifest),
        headers={"Content-Type": "application/apply-patch+yaml"},
        shape=Whole(_type_of(kind_of_known(manifest))),
    ).body


def replace_object(session: Session, manifest: Json) -> Json:
    """Replace an object, all fields of it; its resourceVersion must still be the manifest's.

    Raises Conflict, and NotFound.
    """
    url_path = _path(session, manifest)
    shape = Whole(_type_of(kind_of_known(manifest)))
    return session.send("PUT", url_path, query=_STRICT, body=manifest, shape=shape).body


def patch(
    session: Session,
    kind: Kind,
    name: str,
    namespace: str | None,
    body: Json,
    patch_type: Patch = "merge",
) -> Json:
    return session.send(
        "PATCH",
        path(kind, _namespace_for(session, kind, namespace), name),
        query=_MANAGER,
        body=body,
        headers=_content_type(patch_type),
        shape=Whole(_type_of(kind)),
    ).body


def _content_type(patch_type: Patch) -> dict[str, str]:
    prefix = "strategic-" if patch_type == "strategic" else ""
    return {"Content-Type": f"application/{prefix}merge-patch+json"}


def patch_by_uid(session: Session, kind: Kind, metadata: Mapping[str, str], body: Json) -> Json:
    """Merge a patch into the object with this name and uid.

    Raises NotFound, and ClusterError if another object has this name now: the API server treats
    a different uid in a patch as a change of an immutable field.
    """
    guarded = body | {"metadata": {**body.get("metadata", {}), "uid": metadata["uid"]}}
    return patch(session, kind, metadata["name"], metadata.get("namespace"), guarded)


def patch_object(session: Session, item: Json, body: Json, patch_type: Patch = "merge") -> None:
    """Patch an object without sending or receiving all of it. Raises NotFound."""
    session.send(
        "PATCH",
        _path(session, item),
        query=_MANAGER,
        body=body,
        headers=_content_type(patch_type) | _METADATA_ONLY,
        shape=Object,
    )


def delete(
    session: Session,
    kind: Kind,
    name: str,
    namespace: str | None = None,
    *,
    propagation: Propagation = "Background",
    grace: int | None = None,
) -> bool:
    """Delete an object; False if it was not found. `grace` is in seconds."""
    body = _options(propagation, grace)
    with contextlib.suppress(NotFound):
        url_path = path(kind, _namespace_for(session, kind, namespace), name)
        session.send("DELETE", url_path, body=body, shape=DeletionAnswer)
        return True
    return False


def delete_by_uid(
    session: Session, kind: Kind, metadata: Mapping[str, str], *, grace: int | None = None
) -> None:
    """Delete the object with this name and uid, but no newer one of that name."""
    _delete_by_uid(session, kind, metadata, _options("Background", grace))


def delete_with_dependents(
    session: Session, kind: Kind, metadata: Mapping[str, str], *, grace: int | None = None
) -> None:
    """Delete an object by its uid, its dependents first.

    So it exists as long as its pods, and its finalizers keep none of them.
    """
    _delete_by_uid(session, kind, metadata, _options("Foreground", grace))


def _delete_by_uid(
    session: Session, kind: Kind, metadata: Mapping[str, str], options: Json
) -> None:
    body = options | {"preconditions": {"uid": metadata["uid"]}}
    with contextlib.suppress(NotFound, Conflict):
        url_path = path(kind, metadata.get("namespace"), metadata["name"])
        session.send("DELETE", url_path, body=body, shape=DeletionAnswer)


def delete_unchanged(session: Session, kind: Kind, metadata: Mapping[str, str]) -> None:
    """Delete an object unless it has changed since it was read."""
    options = {"preconditions": {"resourceVersion": metadata["resourceVersion"]}}
    body = _options("Background", None) | options
    url_path = path(kind, metadata.get("namespace"), metadata["name"])
    with contextlib.suppress(NotFound, Conflict):
        session.send("DELETE", url_path, body=body, shape=DeletionAnswer)


def _options(propagation: Propagation, grace: int | None) -> Json:
    seconds = {} if grace is None else {"gracePeriodSeconds": grace}
    return {"propagationPolicy": propagation, **seconds}


def kind_of_known(manifest: Json) -> Kind:
    """Return the kind of a manifest. Raises UserError if the kind is unknown."""
    kind = kind_of(manifest)
    if kind is None:
        raise UserError(
            f"unknown kind {manifest.get('kind')} of {manifest.get('apiVersion')} in a manifest",
            "templates may use the kinds of kubectl-sky's own templates",
        )
    return kind


def _type_of(kind: Kind) -> type:
    return kind.shape if isinstance(kind, ReadKind) else AnyObject


def _namespace_for(session: Session, kind: Kind, namespace: str | None) -> str | None:
    return (namespace or session.namespace) if kind.namespaced else None


def _path(session: Session, item: Json, name: str | None = None) -> str:
    """Return the path of an object, or of its collection if `name` is empty."""
    kind = kind_of_known(item)
    metadata = item["metadata"]
    namespace = _namespace_for(session, kind, metadata.get("namespace"))
    name = metadata["name"] if name is None else name
    return path(kind, namespace, name)


def _dry_run_query(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
