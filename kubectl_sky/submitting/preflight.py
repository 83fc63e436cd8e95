"""Checks before a submit: what exists already, and what could never start. Sends nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, NameTaken, NotFound, NotServed, UserError
from kubectl_sky.observe import status
from kubectl_sky.observe.difference import foreign_fields
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.observe.volumes import DEFAULT_CLASS, default_class
from kubectl_sky.plan import fair_share, quota
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.quota import Demand, Pods, PodStep
from kubectl_sky.render.manifests import Manifest, Manifests
from kubectl_sky.submitting import forecasts, gang
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.tasks import find
from kubectl_sky.tasks.stop import AUXILIARY
from kubectl_sky.words import kinds, names
from kubectl_sky.words.core_objects import PriorityClass
from kubectl_sky.words.kinds import ReadKind
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.decide import Decision
from kubectl_sky.workloads.demand import demand

Guard = Callable[[], AbstractContextManager[object]]

T = TypeVar("T")

_MAX_NAMES = 12  # maximum number of names in a message
# Listed only if the task has some: not all users are allowed to.
_NOT_LISTED = (kinds.SECRET, kinds.PVC)


class Existing(Struct, frozen=True, dict=True):
    """What the cluster has of the tasks already, and what remains to be sent.

    `objects` are those of the tasks. `shared` has the metadata of the objects that other tasks may
    use too, by name. `manifests` are as rendered, with what only the first submit decides.
    `complete` is whether an earlier submit sent everything, or the pipeline has finished.
    """

    manifests: Manifests
    objects: tuple[Json, ...] = ()
    shared: Mapping[str, Json] | None = None
    complete: bool = False
    notes: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> dict[str, Json]:
        return {_name(item): item for item in self.objects}

    def find(self, manifest: Json) -> Json | None:
        return self.by_name.get(_name(manifest))


def check(
    session: Session,
    task_file: TaskFile,
    decision: Decision,
    manifests: Manifests,
    guard: Guard = nullcontext,
    replaced: str = "",
) -> Existing:
    """Compare the tasks with the cluster.

    Raises UserError for tasks that could never start, and, with the fields that differ, for an id
    that belongs to another task. `guard` can keep the errors of independent checks. Quotas count
    without the task with the id `replaced`.
    """
    with guard():
        _check_queues(session, decision.plans)

    claims = [claim for plan in decision.plans for claim in plan.storage.new_pvcs]
    notes: tuple[str, ...] = ()
    with guard():
        notes = storage_class_notes(session, [claim.storage_class for claim in claims])
    notes = (*notes, *_fair_share_notes(session, decision.plans))

    shared = _read_shared(session, manifests.shared)
    workloads = [manifest.object for manifest in manifests.workload]

    if not task_file.given_id:
        with guard():
            _check_quotas(session, decision, manifests, shared, replaced=replaced)
        notes = (*notes, *gang.warnings(session, task_file, decision.plans, workloads))
        return Existing(manifests, shared=shared, notes=notes)

    manifests, items = as_first_sent(session, decision, manifests)
    _refuse_other_task(session, decision, manifests, items)
    complete = _is_complete(decision, manifests, items, shared)
    if not complete:
        with guard():
            _check_quotas(session, decision, manifests, shared, is_new=not items)
        notes = (*notes, *gang.warnings(session, task_file, decision.plans, workloads))
    return Existing(manifests, tuple(items), shared, complete, notes)


def as_first_sent(
    session: Session, decision: Decision, manifests: Manifests
) -> tuple[Manifests, list[Json]]:
    """Return the manifests with what only the first submit decides, and the existing objects.

    That is the token, the task file, the commit of local files and the suspended state.
    """
    items = _existing(session, decision, manifests)
    existing = {_name(item): item for item in items}

    manifests = replace(
        manifests,
        auxiliary=tuple(
            replace(manifest, object=_as_sent(manifest.object, existing[manifest.name]))
            if manifest.name in existing
            else manifest
            for manifest in manifests.auxiliary
        ),
        workload=tuple(
            replace(
                manifest,
                object=registry.with_suspend_field(
                    _as_sent(manifest.object, existing[manifest.name]),
                    existing[manifest.name],
                ),
            )
            if manifest.name in existing
            else manifest
            for manifest in manifests.workload
        ),
    )

    return manifests, items


def _check_quotas(
    session: Session,
    decision: Decision,
    manifests: Manifests,
    shared: Mapping[str, Json],
    *,
    is_new: bool = True,
    replaced: str = "",
) -> None:
    """Refuse tasks that exceed a ResourceQuota or LimitRange, or the quota of their Kueue queue.

    Skipped without permission to list them. Raises Refused.
    """
    namespace = decision.namespace or session.namespace
    with parallel.pool(2) as pool:
        listed = pool.submit(_list_if_allowed, session, kinds.RESOURCE_QUOTA, namespace)
        limit_ranges = _list_if_allowed(session, kinds.LIMIT_RANGE, namespace)
        quotas = listed.result()

    workloads = [manifest.object for manifest in manifests.workload]
    forecasts.check(session, namespace, workloads, limit_ranges or ())
    if not quotas and not limit_ranges:
        return  # none, or the user may not list them

    others = [manifest.object for manifest in manifests.auxiliary] + [
        manifest.object
        for manifest in manifests.shared
        if manifest.object["metadata"]["name"] not in shared
    ]

    freed = _used_by(session, namespace, replaced) if replaced else None
    quota.check(demand(workloads, others), quotas or (), limit_ranges, is_new=is_new, freed=freed)


def _used_by(session: Session, namespace: str, task_id: str) -> Demand:
    """Return what a task uses of quotas: its workloads, and its pods that have not ended."""
    selector = f"{names.TASK_ID}={task_id}"
    workloads = find.list_workload_manifests(session, namespace, selector)
    pods = objects.list_all(session, kinds.POD, namespace, label_selector=selector)
    live = [pod for pod in pods if not pod.status.has_ended]
    step = PodStep(tuple(Pods(pod.spec, 1) for pod in live))
    return Demand((step,), demand(workloads, ()).objects)


def _list_if_allowed(session: Session, kind: ReadKind[T], namespace: str) -> list[T] | None:
    with suppress(Forbidden):
        return objects.list_all(session, kind, namespace)
    return None


def _check_queues(session: Session, plans: Sequence[Plan]) -> None:
    """Refuse tasks that could never start because their Volcano queue is missing or closed.

    Skipped without permission to list queues. Raises UserError.
    """
    own_queues = [plan.pod_options.queue for plan in plans if plan.backend in registry.OWN_QUEUES]
    requested = dict.fromkeys(filter(None, own_queues))
    if not requested:
        return

    try:
        items = objects.list_all(session, kinds.VOLCANO_QUEUE)
    except (Forbidden, NotServed):
        return

    states = {  # a queue without status counts as open
        item.metadata.name: item.status.state or "Open" for item in items
    }
    open_queues = ", ".join(
        sorted(name for name, state in states.items() if state == "Open")[:_MAX_NAMES]
    )
    hint = f"open queues: {open_queues}" if open_queues else "no Volcano queue is open"

    for name in requested:
        if name not in states:
            raise UserError(f'Volcano queue "{name}" not found', hint)
        if states[name] != "Open":
            raise UserError(f'Volcano queue "{name}" is {states[name].lower()}', hint)


def _fair_share_notes(session: Session, plans: Sequence[Plan]) -> Iterator[str]:
    """Warn of queues that have fair share in the cluster, and not in the settings.

    Lists the PriorityClasses of fair share only for tasks of Volcano without a PriorityClass.
    """
    unclassed = [it for it in plans if it.backend == "volcano" and not it.priority_class]
    if not unclassed:
        return
    classes: list[PriorityClass] = []
    with suppress(Forbidden, NotServed):
        classes = objects.list_all(session, kinds.PRIORITY_CLASS, label_selector=fair_share.LABEL)
    shared = {item.metadata.annotations.get(fair_share.QUEUE) for item in classes}
    used = {plan.pod_options.queue or fair_share.DEFAULT_QUEUE for plan in unclassed}
    for queue in sorted(used & shared):
        yield (
            f'warning: queue "{queue}" has fair share, and your settings do not name it: the pods'
            " have no priority and start last; add `fair_share` of the team's settings to yours"
        )


def storage_class_notes(session: Session, requested: Iterable[str | None]) -> tuple[str, ...]:
    """Return a note for each missing StorageClass; None means the default, "" no class.

    Raises UserError if there is no default class: such a PVC would stay pending. Returns nothing
    if the user is not allowed to list StorageClasses.
    """
    classes = {name for name in requested if name != ""}
    if not classes:
        return ()

    try:
        items = objects.list_all(session, kinds.STORAGE_CLASS)
    except Forbidden:
        return ()

    existing = sorted(item.metadata.name for item in items)
    if None in classes and not default_class(items):
        if not existing:
            raise UserError(
                "the cluster has no StorageClass to provision the volume",
                "install a provisioner, or use an existing PVC by its name",
            )
        raise UserError(
            "the cluster has no default StorageClass to provision the volume",
            f"choose one of {', '.join(existing)}: config.storage_class_name of a volume's file, or"
            f" `kubectl sky volumes create --storage-class`; or set a default:"
            f" kubectl annotate storageclass {existing[0]} {DEFAULT_CLASS[0]}=true",
        )

    available = f"available: {', '.join(existing)}" if existing else "the cluster has none"
    return tuple(
        f'StorageClass "{name}" not found ({available}); the volume stays pending until a'
        " PersistentVolume of that class exists"
        for name in sorted({name for name in classes if name} - set(existing))
    )


def _read_shared(session: Session, manifests: Sequence[Manifest]) -> dict[str, Json]:
    """Return the metadata of existing shared objects by name, without those being deleted.

    The name is a hash of the content, but any user can create an object with any name. Raises
    UserError if the content of one does not match its name.
    """

    def fetch(manifest: Manifest) -> Json | None:
        item = manifest.object
        kind = objects.kind_of_known(manifest.object)
        name = item["metadata"]["name"]
        namespace = item["metadata"].get("namespace")
        try:
            live = objects.get_manifest(session, kind, name, namespace)
        except NotFound:
            return None
        if live["metadata"].get("deletionTimestamp"):
            return None
        refuse_foreign(item, live)
        return dict(live["metadata"])

    existing = filter(None, parallel.map_parallel(fetch, manifests))
    return {metadata["name"]: metadata for metadata in existing}


def refuse_foreign(manifest: Json, live: Json) -> None:
    """Raise UserError unless an existing object equals what would be created."""
    reasons = foreign_fields(manifest, live)
    if live["metadata"].get("deletionTimestamp"):
        reasons = ["it is being deleted"]
    if reasons:
        suffix = f" and {len(reasons) - 1} more" if reasons[1:] else ""
        raise NameTaken(
            f"{_name(manifest)} already exists and was not created by this task:"
            f" {reasons[0]}{suffix}",
            "delete it if it is yours, or submit with another --id",
        )


def _existing(session: Session, decision: Decision, manifests: Manifests) -> list[Json]:
    """List the existing objects with the id, one request per kind.

    Secrets are read by name: few users are allowed to list them. Raises UserError if an object
    with a name of ours lacks our labels and differs from what would be sent.
    """
    auxiliary_objects = [manifest.object for manifest in manifests.auxiliary]
    secrets = [item for item in auxiliary_objects if item["kind"] == kinds.SECRET.kind]
    listed_kinds = dict.fromkeys(
        objects.kind_of_known(item) for item in auxiliary_objects if item not in secrets
    )
    listed_kinds.update(dict.fromkeys(kind for kind in AUXILIARY if kind not in _NOT_LISTED))
    namespace = decision.namespace
    selector = f"{decision.label}={decision.id}"
    lists = parallel.map_parallel(
        lambda kind: objects.list_manifests(session, kind, namespace, label_selector=selector),
        listed_kinds,
    )
    auxiliary = [item for items in lists for item in items]
    listed_names = set(map(_name, auxiliary))
    unlisted = [item for item in auxiliary_objects if _name(item) not in listed_names]

    def fetch(item: Json) -> Json | None:
        kind = objects.kind_of_known(item)
        metadata = item["metadata"]
        with suppress(NotFound, Forbidden, NotServed):
            live = objects.get_manifest(session, kind, metadata["name"], metadata.get("namespace"))
            if names.TASK not in (live["metadata"].get("labels") or {}):
                refuse_foreign(item, live)
            return live
        return None

    auxiliary += filter(None, parallel.map_parallel(fetch, unlisted))
    return auxiliary + find.list_workload_manifests(session, namespace, selector)


_KEPT = {kinds.SECRET.kind: names.TOKEN, kinds.CONFIG_MAP.kind: names.TASK_FILE}  # keys of `data`


def _as_sent(item: Json, live: Json) -> Json:
    return _with_kept(_with_revision(item, live), live)


def _with_revision(item: Json, live: Json) -> Json:
    """Copy the commit of local files of the live object: their content is compared, not that."""
    metadata = item["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    if annotations.pop(names.REVISION, None) is None:
        return item
    live_annotations = live["metadata"].get("annotations") or {}
    if names.REVISION in live_annotations:
        annotations[names.REVISION] = live_annotations[names.REVISION]
    return item | {"metadata": metadata | {"annotations": annotations}}


def _with_kept(item: Json, live: Json) -> Json:
    """Copy the token or the task file of the live object, if both objects have one."""
    data = item.get("data") or {}
    key = _KEPT.get(item["kind"])
    kept = (live.get("data") or {}).get(key)
    return item if key not in data or kept is None else item | {"data": data | {key: kept}}


def _refuse_other_task(
    session: Session, decision: Decision, manifests: Manifests, items: Sequence[Json]
) -> None:
    """Refuse an id that belongs to another task.

    Otherwise the submit would change a running task.
    """
    expected = {manifest.name: manifest.object for manifest in manifests.own}
    mismatches: list[str] = []
    other_label = names.TASK_ID if decision.together else names.PIPELINE
    selector = f"{other_label}={decision.id}"
    others = find.list_workload_manifests(session, decision.namespace, selector)

    for live in (*items, *others):
        name = _name(live)
        if live["metadata"].get("deletionTimestamp"):
            raise NameTaken(
                f"task {decision.id} is being deleted", "wait a moment, or use another --id"
            )
        if name not in expected:
            mismatches.append(f"{name}: not part of this file")
        elif fields := foreign_fields(expected[name], live):
            mismatches += [f"{name}: {field}" for field in fields]

    if not mismatches:
        return
    hint = f"use another --id, or stop that task first: kubectl sky stop {decision.id}"
    shown = "\n  ".join(mismatches[:_MAX_NAMES]) + (
        f"\n  and {len(mismatches) - _MAX_NAMES} more" if mismatches[_MAX_NAMES:] else ""
    )
    raise NameTaken(
        f"--id {decision.id} belongs to a different task; these fields differ:\n  {shown}",
        hint,
    )


def _is_complete(
    decision: Decision, manifests: Manifests, items: Sequence[Json], shared: Mapping[str, Json]
) -> bool:
    """Return whether an earlier submit sent every object, or the pipeline has finished.

    A failed pipeline lacks its cancelled tasks, and they are not created again.
    """
    workloads = [item for item in items if item["kind"] in decision.workload_kinds]
    if not all(item["metadata"].get("ownerReferences") for item in items if item not in workloads):
        return False

    uids = {item["metadata"]["uid"] for item in items}
    owns_shared = all(
        uids.intersection(
            owner["uid"]
            for owner in shared.get(manifest.object["metadata"]["name"], {}).get("ownerReferences")
            or ()
        )
        for manifest in manifests.shared
    )

    finished = pipelines(status.tasks(map(registry.read, workloads), ()))
    return (len(items) == len(manifests.own) and owns_shared) or any(
        pipeline.state.ended for pipeline in finished
    )


def _name(item: Json) -> str:
    return f"{item['kind']}/{item['metadata']['name']}"
