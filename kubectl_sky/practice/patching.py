"""A PATCH of each type, and who owns the fields after any write."""

import copy
from dataclasses import dataclass
from datetime import UTC, datetime

from kubectl_sky.practice import apply as applying
from kubectl_sky.practice import decoding, merge, problems, schemas
from kubectl_sky.practice.resources import Json, Resource

APPLY = "application/apply-patch+yaml"
_MAP = (dict, "map[string]interface {}")
_TYPES = {
    "application/json-patch+json": lambda old, body, _: merge.json_patch(old, body),
    "application/merge-patch+json": lambda old, body, _: merge.merge_patch(old, body),
    "application/strategic-merge-patch+json": merge.strategic,
}


def patched(old: Json, body: bytes, content_type: str, resource: Resource) -> Json:
    """Return an object with a patch of any type but apply carried out. Raises Problem."""
    change = _TYPES.get(content_type)
    if not change:
        text = "415: Unsupported Media Type"
        raise problems.Problem(415, "UnsupportedMediaType", text)
    if resource.custom and "strategic" in content_type:
        raise problems.unsupported(content_type, [*list(_TYPES)[:2], APPLY])
    wanted, name = (list, "[]handlers.jsonPatchOp") if "json-patch" in content_type else _MAP
    try:
        patch = decoding.json_value(body)
        if not isinstance(patch, wanted):
            found = decoding.NAMES.get(type(patch), "null")
            raise ValueError(f"json: cannot unmarshal {found} into Go value of type {name}")
    except ValueError as error:
        raise problems.bad_request(f"error decoding patch: {error}") from None
    new = change(old, patch, schemas.root(resource))
    if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
        raise problems.bad_request("the patch does not leave an object")
    return copy.deepcopy(new)


@dataclass(frozen=True)
class Manager:
    """Who writes, through which subresource, and whether he takes from others."""

    name: str
    resource: Resource
    subresource: str = ""
    force: bool = False

    def record(self, old: Json | None, new: Json) -> None:
        """Note in `new` who changed what is different from `old`."""
        schema = schemas.root(self.resource)
        before, after = applying.owned(old or {}, schema), applying.owned(new, schema)
        changed = {
            path for path, value in after.items() if path not in before or before[path] != value
        }
        if self.resource.status and not self.subresource:
            changed = {path for path in changed if path[0] != "f:status"}
        managers = applying.Managers(new, self.subresource)
        mine = managers.index(self.name, "Update")
        managers.take(changed | (before.keys() - after.keys()), spare=mine)
        managers.give(self.name, "Update", changed, self._stamp())
        self._write(new, managers)

    def apply(self, live: Json | None, applied: Json) -> Json:
        """Return an object with what a manager applies merged into it. Raises Problem."""
        schema = schemas.root(self.resource)
        live = live or {"metadata": {}}
        applied = {**applied, "metadata": dict(applied.get("metadata") or {})}
        applied["metadata"].pop("managedFields", None)
        wanted = set(applying.owned(applied, schema))
        managers = applying.Managers(live, self.subresource)
        mine = managers.index(self.name, "Apply")
        new = applying.merged(live, applied, schema)
        before, after = applying.owned(live, schema), applying.owned(new, schema)
        changed = {path for path in wanted if path not in before or before[path] != after.get(path)}
        conflicts = managers.conflicts(mine, changed)
        if conflicts and not self.force:
            raise problems.field_conflicts(conflicts)
        managers.take(changed, spare=mine)
        others = set().union(*(one for at, one in enumerate(managers.sets) if at != mine))
        held = {path[:length] for path in others | wanted for length in range(1, len(path) + 1)}
        gone = (managers.sets[mine] if mine >= 0 else set()) - held
        result: Json = applying.without(new, gone, schema)
        managers.give(self.name, "Apply", wanted, self._stamp())
        self._write(result, managers)
        return result

    def _stamp(self) -> Json:
        time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"apiVersion": self.resource.api_version, "time": time}

    def _write(self, obj: Json, managers: applying.Managers) -> None:
        entries = managers.entries()
        obj["metadata"] = {**obj["metadata"], "managedFields": entries}
        if not entries:
            del obj["metadata"]["managedFields"]
