"""The verbs of the API: get, list, create, update, patch, delete, and reviews and tokens."""

import sys
from datetime import UTC, datetime
from typing import NamedTuple

from kubectl_sky_practice import (
    defaults,
    managed_fields,
    patches,
    problems,
    requests,
    schemas,
    selection,
    tables,
    validation,
)
from kubectl_sky_practice.access import Access, Attempt
from kubectl_sky_practice.api import Api, Deletion
from kubectl_sky_practice.requests import Request, RequestInfo
from kubectl_sky_practice.resources import Json, Resource
from kubectl_sky_practice.selection import Predicate
from kubectl_sky_practice.state import key

_IMMUTABLE = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")

_PROGRAMS = (
    "practice cluster: images are not pulled; this machine's"
    f" Python {sys.version_info.major}.{sys.version_info.minor} runs"
)


class Result(NamedTuple):
    body: Json
    code: int = 200


class Verbs:
    """The verbs of a request; each raises Problem."""

    def __init__(self, api: Api, access: Access) -> None:
        self.api = api
        self._access = access

    def get(self, info: RequestInfo, request: Request) -> Result:
        obj = self._existing(info)
        if request.as_table:
            return Result(tables.table(info.resource, [obj], {}, request.as_table))
        return Result(obj)

    def predicate(self, info: RequestInfo, request: Request) -> Predicate:
        """Return a test for the objects that a list or watch selects."""
        by_label = selection.labels(request.query.get("labelSelector", ""))
        by_field = selection.fields(request.query.get("fieldSelector", ""), info.resource)

        def selects(obj: Json) -> bool:
            namespace = obj["metadata"].get("namespace")
            return info.namespace in ("", namespace) and by_label(obj) and by_field(obj)

        return selects

    def list(self, info: RequestInfo, request: Request) -> Result:
        resource = info.resource
        metadata = {"resourceVersion": str(self.api.state.version)}
        stored = self.api.state.all(resource.storage, info.namespace)
        objects = sorted(filter(self.predicate(info, request), stored), key=key)

        token = request.query.get("continue")
        if token:
            namespace, name, metadata["resourceVersion"] = requests.read_continue_token(token)
            objects = [obj for obj in objects if key(obj) > (namespace, name)]

        limit = request.number("limit") or 0
        if 0 < limit < len(objects):
            objects = objects[:limit]
            version_of_list = metadata["resourceVersion"]
            metadata["continue"] = requests.continue_token(*key(objects[-1]), version_of_list)

        if request.as_table:
            return Result(tables.table(resource, objects, metadata, request.as_table))
        header = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        items = [_item(obj, resource) for obj in objects]
        return Result({**header, "metadata": metadata, "items": items})

    def create(self, info: RequestInfo, request: Request) -> Result:
        obj = request.object(info)
        if info.resource.namespaced and not info.namespace:
            raise problems.bad_request("an empty namespace may not be set during creation")
        obj["metadata"].pop("managedFields", None)
        if info.resource.storage == "pods":
            request.warnings.append(_PROGRAMS)
        return self._create(info, request, obj)

    def update(self, info: RequestInfo, request: Request) -> Result:
        new = request.object(info)
        return Result(self._replace(info, request, self._existing(info), new))

    def patch(self, info: RequestInfo, request: Request) -> Result:
        """Patch an object; an apply creates it if it does not exist."""
        if request.content_type == requests.APPLY:
            return self._apply(info, request)
        old = self._existing(info)
        try:
            change = requests.decode(request.body)
        except ValueError as error:
            raise problems.bad_request(f"the patch cannot be decoded: {error}") from None
        new = patches.patch(old, change, request.content_type, info.resource)
        return Result(self._replace(info, request, old, request.object(info, new)))

    def delete(self, info: RequestInfo, request: Request) -> Result:
        obj = self._existing(info)
        resource = info.resource
        remaining = self.api.delete(resource.storage, key(obj), _deletion(request))
        exists = self.api.state.get(resource.storage, *key(obj)) is not None
        if exists or request.dry_run or resource.storage == "pods":
            return Result(remaining)
        details = {"name": info.name, "group": resource.group, "kind": resource.plural}
        details["uid"] = obj["metadata"]["uid"]
        details = {name: value for name, value in details.items() if value}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Result({**status, "details": details})

    def review(self, kind: str, group: str, request: Request) -> Result:
        """Return who the sender is, or whether an action is allowed."""
        body = {**request.decode(group, "v1", kind), "kind": kind, "apiVersion": f"{group}/v1"}
        if kind == "SelfSubjectReview":
            user: Json = {"username": request.user.name, "groups": list(request.user.groups)}
            optional = {"uid": request.user.uid, "extra": request.user.extra}
            user |= {name: value for name, value in optional.items() if value}
            return Result({**body, "status": {"userInfo": user}}, 201)

        spec = body.get("spec") or {}
        attributes = spec.get("resourceAttributes") or {}
        name = "/".join(
            filter(None, (attributes.get("resource", "*"), attributes.get("subresource")))
        )
        attempt = Attempt(attributes.get("verb", "*"), attributes.get("group", ""), name)
        attempt = attempt._replace(
            namespace=attributes.get("namespace", ""), name=attributes.get("name", "")
        )

        allowed = self._access.allows(request.user, attempt)
        return Result({**body, "status": {"allowed": allowed}}, 201)

    def token(self, info: RequestInfo, request: Request) -> Result:
        account = self._existing(info)
        body = request.decode("authentication.k8s.io", "v1", "TokenRequest")
        seconds = int((body.get("spec") or {}).get("expirationSeconds") or 3600)
        name = ":".join(("system:serviceaccount", *key(account)))
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{info.namespace}")
        token = self._access.token(name, groups, seconds)
        expires = datetime.fromtimestamp(datetime.now(UTC).timestamp() + seconds, UTC)
        status = {"token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ")}
        kind = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        return Result({**body, **kind, "status": status}, 201)

    def _existing(self, info: RequestInfo) -> Json:
        obj = self.api.state.get(info.resource.storage, info.namespace, info.name)
        if obj is None:
            raise problems.not_found(info.resource.storage, info.name)
        if obj["apiVersion"] != info.resource.api_version:
            return {**obj, "apiVersion": info.resource.api_version}
        return obj

    def _create(self, info: RequestInfo, request: Request, obj: Json) -> Result:
        created = self.api.add(info.resource, obj, info.namespace, dry_run=request.dry_run)
        return Result(created, 201)

    def _apply(self, info: RequestInfo, request: Request) -> Result:
        if not request.query.get("fieldManager"):
            cause = validation.required("fieldManager")
            raise problems.invalid("PatchOptions.meta.k8s.io", "", [cause])

        resource = info.resource
        applied = request.object(info)
        old = self.api.state.get(resource.storage, info.namespace, info.name)
        manager = request.query["fieldManager"]
        force = request.flag("force")

        new = managed_fields.apply(old, applied, resource, manager, force=force)
        if resource.custom:
            new = schemas.fill_defaults(new, schemas.root(resource))

        if old is None:
            new["metadata"]["name"] = info.name
            return self._create(info, request, new)
        return Result(self._replace(info, request, old, new, managed=True))

    def _replace(
        self, info: RequestInfo, request: Request, old: Json, new: Json, *, managed: bool = False
    ) -> Json:
        storage = info.resource.storage
        before = old["metadata"]
        after = new["metadata"]

        if after.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
            why = "the object has been modified; try again"
            raise problems.conflict(storage, info.name, why)
        if after.get("uid", before["uid"]) != before["uid"]:
            raise problems.conflict(storage, info.name, f"the UID is {before['uid']}")

        for field in (*_IMMUTABLE, "resourceVersion", "generation", "namespace", "generateName"):
            after.pop(field, None)
            if field in before:
                after[field] = before[field]
        if info.resource.status:
            _keep_other_part(old, new, to_status=info.subresource == "status")
        if not managed:
            managed_fields.release(old, new, info.resource)

        new = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"]}
        defaults.fill(storage, new)
        validation.check(new, info.resource)
        validation.check_change(old, new, info.resource)

        if request.dry_run:
            return new
        return old if old == new else self.api.store(storage, old, new)


def _keep_other_part(old: Json, new: Json, *, to_status: bool) -> None:
    """Let a request to an object change no status, and one to the status nothing else."""
    if not to_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
        return
    changed = {"status", "metadata"}
    kept = {name: value for name, value in old.items() if name not in changed}
    for name in set(new) - changed:
        del new[name]
    new.update(kept)
    labels = {name: old["metadata"].get(name) for name in ("labels", "annotations")}
    new["metadata"].update({name: value for name, value in labels.items() if value})


def _item(obj: Json, resource: Resource) -> Json:
    if resource.custom:
        return obj
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def _deletion(request: Request) -> Deletion:
    body = request.decode("", "v1", "DeleteOptions") if request.body else {}
    propagation = body.get("propagationPolicy") or request.query.get("propagationPolicy")
    requests.check_options({"propagationPolicy": propagation or ""})
    grace = body.get("gracePeriodSeconds", request.number("gracePeriodSeconds"))
    dry_run = request.dry_run or body.get("dryRun") == ["All"]
    return Deletion(propagation or "Background", grace, body.get("preconditions") or {}, dry_run)
