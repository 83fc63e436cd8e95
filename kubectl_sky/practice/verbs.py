"""The verbs of the API on objects: get, list, create, update, patch and delete."""

import copy
from datetime import UTC, datetime
from typing import NamedTuple

from kubectl_sky.practice import (
    defaults,
    options,
    patching,
    problems,
    schemas,
    selection,
    shapes,
    tables,
    validation,
)
from kubectl_sky.practice.access import Access, Attempt
from kubectl_sky.practice.api import Api, Deletion
from kubectl_sky.practice.requests import Place, Request, continue_token, read_continue
from kubectl_sky.practice.resources import Json, Resource
from kubectl_sky.practice.selection import Wanted
from kubectl_sky.practice.state import key

_SHORTEST_TOKEN = 600
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


class Answer(NamedTuple):
    """What a verb answers, with its HTTP code."""

    body: Json
    code: int = 200


class Verbs:
    """Carries out requests of users who may make them."""

    def __init__(self, api: Api, access: Access) -> None:
        self.api = api
        self._access = access

    def get(self, place: Place, request: Request) -> Answer:
        """Return one object. Raises Problem."""
        found = self._one(place)
        if request.as_table:
            return Answer(tables.table(place.resource, [found], {}, request.as_table))
        return Answer(found)

    def wanted(self, place: Place, request: Request) -> Wanted:
        """Return which objects a list or watch is about. Raises Problem."""
        by_label = selection.labels(request.query.get("labelSelector", ""))
        by_field = selection.fields(request.query.get("fieldSelector", ""), place.resource)

        def wanted(obj: Json) -> bool:
            mine = not place.namespace or obj["metadata"].get("namespace") == place.namespace
            return mine and by_label(obj) and by_field(obj)

        return wanted

    def list(self, place: Place, request: Request) -> Answer:
        """Return the objects that are wanted, a page of them if so asked. Raises Problem."""
        resource, metadata = place.resource, {"resourceVersion": str(self.api.state.version)}
        asked = request.number("resourceVersion") or 0
        if asked > self.api.state.version:
            raise too_new(asked, self.api.state.version)
        wanted = self.wanted(place, request)
        found = [
            one for one in self.api.state.all(resource.storage, place.namespace) if wanted(one)
        ]
        found.sort(key=key)
        token = request.query.get("continue")
        if token:
            namespace, name, metadata["resourceVersion"] = read_continue(token)
            found = [one for one in found if key(one) > (namespace, name)]
        limit = request.number("limit") or 0
        if 0 < limit < len(found):
            more = len(found) - limit
            found = found[:limit]
            metadata["continue"] = continue_token(*key(found[-1]), metadata["resourceVersion"])
            if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
                metadata["remainingItemCount"] = more  # type: ignore[assignment]
        if request.as_table:
            return Answer(tables.table(resource, found, metadata, request.as_table))
        own = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        return Answer(
            {**own, "metadata": metadata, "items": [_item(one, resource) for one in found]}
        )

    def create(self, place: Place, request: Request) -> Answer:
        """Create what was sent. Raises Problem."""
        obj = request.object(place)
        if place.resource.namespaced and not place.namespace:
            raise problems.bad_request("an empty namespace may not be set during creation")
        request.manager(place).record(None, obj)
        created = self.api.add(place.resource, obj, place.namespace, dry_run=request.dry_run)
        return Answer(created, 201)

    def update(self, place: Place, request: Request) -> Answer:
        """Put what was sent in the place of what is there. Raises Problem."""
        new = request.object(place)
        return Answer(self._replace(place, request, self._one(place), new))

    def patch(self, place: Place, request: Request) -> Answer:
        """Carry out a patch; an apply creates what is not there. Raises Problem."""
        if request.content_type == patching.APPLY:
            return self._apply(place, request)
        old = self._one(place)
        new = patching.patched(old, request.body, request.content_type, place.resource)
        return Answer(self._replace(place, request, old, request.object(place, new)))

    def delete(self, place: Place, request: Request) -> Answer:
        """Delete one object. Raises Problem."""
        last = self._one(place)
        left = self.api.delete(place.resource.storage, key(last), _deletion(place, request))
        gone = self.api.state.get(place.resource.storage, *key(last)) is None
        if not gone or request.dry_run or place.resource.storage == "pods":
            return Answer(left)
        details = {"name": place.name, "group": place.resource.group, "kind": place.resource.plural}
        details["uid"] = last["metadata"]["uid"]
        details = {name: value for name, value in details.items() if value}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer({**status, "details": details})

    def delete_all(self, place: Place, request: Request) -> Answer:
        """Delete all objects that are wanted; return them as they were. Raises Problem."""
        answer, deletion = self.list(place, request), _deletion(place, request)
        wanted = self.wanted(place, request)
        for one in self.api.state.all(place.resource.storage, place.namespace):
            if wanted(one):
                self.api.delete(place.resource.storage, key(one), deletion)
        return answer

    def review(self, kind: str, group: str, request: Request) -> Answer:
        """Answer who the sender is, or what he may. Raises Problem."""
        body = request.read(group, "v1", kind)
        body = {"kind": kind, "apiVersion": f"{group}/v1", "metadata": {}, **body}
        if kind == "SelfSubjectReview":
            user = {"username": request.user.name, "groups": list(request.user.groups)}
            return Answer({**body, "status": {"userInfo": user}}, 201)
        spec = body.get("spec") or {}
        if not spec.get("resourceAttributes") and not spec.get("nonResourceAttributes"):
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            cause = problems.Cause(
                "FieldValueInvalid", "spec.resourceAttributes", f"Invalid value: null: {text}"
            )
            raise problems.invalid(f".{group}", "", [cause])
        asked = spec.get("resourceAttributes") or {}
        name = "/".join(filter(None, (asked.get("resource", "*"), asked.get("subresource"))))
        attempt = Attempt(asked.get("verb", "*"), asked.get("group", ""), name)
        attempt = attempt._replace(namespace=asked.get("namespace", ""), name=asked.get("name", ""))
        allowed = self._access.allows(request.user, attempt)
        return Answer({**body, "status": {"allowed": allowed}}, 201)

    def token(self, place: Place, request: Request) -> Answer:
        """Give a token of a service account. Raises Problem."""
        account = self._one(place)
        body = request.read("authentication.k8s.io", "v1", "TokenRequest")
        seconds = int((body.get("spec") or {}).get("expirationSeconds") or 3600)
        if seconds < _SHORTEST_TOKEN:
            text = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
            cause = problems.Cause("FieldValueInvalid", "spec.expirationSeconds", text)
            raise problems.invalid("TokenRequest.authentication.k8s.io", "", [cause])
        name = ":".join(("system:serviceaccount", *key(account)))
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{place.namespace}")
        token = self._access.token(name, groups, seconds)
        until = datetime.fromtimestamp(datetime.now(UTC).timestamp() + seconds, UTC)
        status = {"token": token, "expirationTimestamp": until.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return Answer({**body, "status": status}, 201)

    def _one(self, place: Place) -> Json:
        found = self.api.state.get(place.resource.storage, place.namespace, place.name)
        if found is None:
            raise problems.not_found(place.resource.storage, place.name)
        if found["apiVersion"] != place.resource.api_version:
            return {**found, "apiVersion": place.resource.api_version}
        return found

    def _apply(self, place: Place, request: Request) -> Answer:
        if not request.query.get("fieldManager"):
            cause = problems.Cause(
                "FieldValueRequired", "fieldManager", "Required value: is required for apply patch"
            )
            raise problems.invalid("PatchOptions.meta.k8s.io", "", [cause])
        body = request.read_applied()
        resource = place.resource
        wrong = () if resource.custom else shapes.untyped(body, schemas.root(resource))
        for why in wrong:
            where = "/".join(filter(None, (place.namespace, place.name)))
            kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
            raise problems.untyped(f"{where}; {kind}", why)
        applied = request.object(place, body)
        old = self.api.state.get(place.resource.storage, place.namespace, place.name)
        new = request.manager(place).apply(old, applied)
        if resource.custom:
            new = shapes.defaulted(new, schemas.root(resource))
        if old is None:
            new["metadata"]["name"] = place.name
            created = self.api.add(place.resource, new, place.namespace, dry_run=request.dry_run)
            return Answer(created, 201)
        return Answer(self._replace(place, request, old, new, recorded=True))

    def _replace(
        self, place: Place, request: Request, old: Json, new: Json, *, recorded: bool = False
    ) -> Json:
        """Store a new version of an object, of which a request may change only some parts."""
        storage, name = place.resource.storage, place.name
        before, after = old["metadata"], new["metadata"]
        if after.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
            raise problems.modified(storage, name)
        if after.get("uid", before["uid"]) != before["uid"]:
            why = f"Precondition failed: UID in precondition: {after['uid']}, UID in object meta:"
            raise problems.conflict(storage, name, f"{why} {before['uid']}")
        for field in (*_KEPT, "resourceVersion", "generation", "namespace", "generateName"):
            after.pop(field, None)
            if field in before:
                after[field] = before[field]
        if place.resource.status:
            _keep_other_part(old, new, to_status=place.subresource == "status")
        if not recorded:
            after["managedFields"] = copy.deepcopy(before.get("managedFields") or [])
            request.manager(place).record(old, new)
        new = {"apiVersion": old["apiVersion"], "kind": old["kind"]} | new
        new |= {"apiVersion": old["apiVersion"]}
        defaults.fill(storage, new)
        validation.check(new, place.resource)
        validation.check_change(old, new, place.resource)
        if request.dry_run or _same(old, new):
            return old if not request.dry_run else new
        return self.api.store(storage, old, new)


def too_new(asked: int, current: int) -> problems.Problem:
    """Nothing is known yet of a version."""
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return problems.Problem(504, "Timeout", text, {"retryAfterSeconds": 1})


def _keep_other_part(old: Json, new: Json, *, to_status: bool) -> None:
    if to_status:
        changed = {"status", "metadata"}
        kept = {name: value for name, value in old.items() if name not in changed}
        for name in set(new) - changed:
            del new[name]
        new.update(kept)
        labels = {name: old["metadata"].get(name) for name in ("labels", "annotations")}
        new["metadata"].update({name: value for name, value in labels.items() if value})
    else:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]


def _same(old: Json, new: Json) -> bool:
    def plain(obj: Json) -> Json:
        metadata = dict(obj["metadata"])
        metadata["managedFields"] = [
            {**one, "time": ""} for one in metadata.get("managedFields") or ()
        ]
        return {**obj, "metadata": metadata}

    return old == new or plain(old) == plain(new)


def _item(obj: Json, resource: Resource) -> Json:
    if resource.custom:
        return obj
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def _deletion(place: Place, request: Request) -> Deletion:
    body = request.read("", "v1", "DeleteOptions") if request.body else {}
    if not isinstance(body, dict):
        raise problems.bad_request("the body is not DeleteOptions")
    propagation = body.get("propagationPolicy") or request.query.get("propagationPolicy")
    if not propagation and (body.get("orphanDependents") or request.flag("orphanDependents")):
        propagation = "Orphan"
    if not propagation and place.resource.storage == "jobs.batch":
        propagation = "Orphan"
        request.warnings.append(
            "child pods are preserved by default when jobs are deleted; set"
            " propagationPolicy=Background to remove them or set propagationPolicy=Orphan to"
            " suppress this warning"
        )
    options.check("DELETE", {"propagationPolicy": propagation or ""})
    grace = body.get("gracePeriodSeconds", request.number("gracePeriodSeconds"))
    dry_run = request.dry_run or body.get("dryRun") == ["All"]
    return Deletion(propagation or "Background", grace, body.get("preconditions") or {}, dry_run)
