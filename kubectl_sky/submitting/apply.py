"""Send the objects of tasks in order, and let the workloads own the other objects."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from random import uniform
from time import sleep
from typing import Any

from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.apply import Applied, apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Conflict, Forbidden, Interrupted, NotFound, SkyError
from kubectl_sky.plan import fair_share
from kubectl_sky.render.manifests import Manifest
from kubectl_sky.submitting.preflight import Existing, refuse_foreign
from kubectl_sky.tasks.submissions import Submitted
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import kinds, names
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.decide import Decision

_ATTEMPTS = 10  # to add an owner while other tasks add theirs


def apply(
    session: Session, decision: Decision, existing: Existing, ui: UI, *, dry_run: bool = False
) -> Submitted:
    """Send what is missing, in order, and make the workloads own the rest.

    If a step fails, the objects that this call created are deleted. A dry run is server-side.
    Raises ClusterError.
    """
    if existing.complete and not dry_run:
        return _describe_submitted(decision, existing.objects, unchanged=True)
    manifests = existing.manifests
    admit(session, manifests.workload)
    workloads = [manifest.object for manifest in manifests.workload]
    stages = [
        [manifest.object for manifest in manifests.auxiliary],
        # Suspended workloads come first: nothing runs until all objects exist.
        [item for item in workloads if registry.is_suspended(item)],
        [item for item in workloads if not registry.is_suspended(item)],
    ]
    missing = [[item for item in stage if not existing.find(item)] for stage in stages]
    with (
        _explain_remaining(session, decision),
        ui.progress("Sending", sum(map(len, missing))) as advance,
        shared_objects(session, manifests.shared, existing.shared or {}, dry_run) as shared,
    ):

        def adopt(applied: list[Applied]) -> None:
            items = [*existing.objects, *(result.object for result in applied)]
            _adopt(session, items, shared, decision.workload_kinds)

        finish = None if dry_run else adopt
        applied = apply_all(
            session,
            missing,
            refuse_foreign,
            dry_run=dry_run,
            on_done=lambda done: advance(1),
            finish=finish,
        )
    return _describe_submitted(
        decision, [*existing.objects, *(result.object for result in applied)]
    )


@contextmanager
def _explain_remaining(session: Session, decision: Decision) -> Iterator[None]:
    """After an error that leaves workloads, say that they may run, and both ways on."""
    try:
        yield
    except SkyError as error:
        workloads = [item for item in error.remaining if item["kind"] in decision.workload_kinds]
        if workloads:
            service = workloads[0]["metadata"]["labels"].get(names.SERVICE)
            title = f"{decision.word} {decision.id}"
            target = f"stop {decision.id}"
            again = f"or submit again with --id {decision.id}"
            if service:
                title = f'service "{service}"'
                target = f"serve down {service}"
                again = "then the same command again"

            ways = f"{title} may run: run `kubectl sky {target}{session.flags}`, {again}"
            error.hint = f"{error.hint}; {ways}" if isinstance(error, Interrupted) else ways
        raise


def _describe_submitted(
    decision: Decision, items: Sequence[Json], *, unchanged: bool = False
) -> Submitted:
    workload_kinds = decision.workload_kinds
    workloads = tuple(item for item in items if item["kind"] in workload_kinds)
    return Submitted(decision, workloads, unchanged)


def admit(session: Session, workloads: Sequence[Manifest]) -> None:
    """Dry-run the creation of a pod of each task, to report rejections early.

    The API server accepts a Job whatever its pods are. A full quota, a policy or a webhook would
    only show as a Job without pods. Users who can create Jobs but not pods skip this check.
    """
    by_task: dict[str, Json] = {}
    for manifest in workloads:
        by_task.setdefault(manifest.object["metadata"]["labels"][names.TASK_ID], manifest.object)
    for item in by_task.values():
        for template in registry.of_manifest(item).templates(item):
            try:
                objects.create(session, _pod(item, template), dry_run=True)
            except Forbidden:
                return


def _pod(workload: Json, template: Mapping[str, Any]) -> Json:
    metadata = {
        **template["metadata"],
        "generateName": workload["metadata"]["name"] + "-",
        "namespace": workload["metadata"]["namespace"],
    }
    spec = dict(template["spec"])
    if str(spec.get("priorityClassName")).startswith(fair_share.PREFIX):
        del spec["priorityClassName"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@contextmanager
def shared_objects(
    session: Session, manifests: Sequence[Manifest], existing: Mapping[str, Json], dry_run: bool
) -> Iterator[list[Json]]:
    """Create the missing shared objects, then run the body with all of them.

    If the body fails, the created objects are deleted unless another task uses them by then.
    """
    items = [manifest.object for manifest in manifests]
    missing = [item for item in items if item["metadata"]["name"] not in existing]
    applied = apply_all(session, [missing], refuse_foreign, dry_run=dry_run)
    try:
        yield items
    except (SkyError, KeyboardInterrupt):
        for result in applied:
            if result.created and not dry_run:
                with suppress(SkyError):  # `clean` finds it
                    kind = objects.kind_of_known(result.object)
                    objects.delete_unchanged(session, kind, result.object["metadata"])
        raise


def _adopt(
    session: Session,
    items: Iterable[Json],
    shared: Sequence[Json],
    workload_kinds: Collection[str],
) -> None:
    """Make the workloads own the other objects, so that they are garbage-collected.

    Objects that belong to no single task are owned by the workloads of all tasks, shared objects by
    the tasks' ConfigMaps. They are deleted with their last owner.
    """
    owners: dict[str | None, list[Json]] = defaultdict(list)
    owned = []
    for item in items:
        metadata = item["metadata"]
        if item["kind"] in workload_kinds:
            owners[metadata["labels"].get(names.TASK_ID)].append(owner_reference(item))
            owners[None].append(owner_reference(item))
        else:
            owned.append(item)

    # One owner per task keeps the list short: a task may have a thousand Jobs.
    config_maps = [item for item in owned if item["kind"] == kinds.CONFIG_MAP.kind]
    sharers = [owner_reference(item) for item in config_maps] or owners[None]

    def adopt(item: Json) -> None:
        references = owners[item["metadata"]["labels"].get(names.TASK_ID)]
        objects.patch_object(session, item, {"metadata": {"ownerReferences": references}})

    parallel.map_parallel(adopt, owned)
    parallel.map_parallel(lambda item: add_owners(session, item, sharers), shared)


def owner_reference(item: Json) -> Json:
    identity = {field: item["metadata"][field] for field in ("name", "uid")}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"]} | identity


def add_owners(session: Session, item: Json, owners: Sequence[Json]) -> None:
    """Add owners to a shared object.

    Create it again if it was garbage-collected with its last owner.
    """
    body = {"metadata": {"ownerReferences": list(owners)}}
    try:
        _merge_owners(session, item, body)
    except NotFound:
        replacement = item | {"metadata": item["metadata"] | body["metadata"]}
        answer = objects.create_or_accept(session, replacement, refuse_foreign)
        if answer.status != HTTPStatus.CREATED:  # another task created it
            _merge_owners(session, item, body)


def _merge_owners(session: Session, item: Json, body: Json) -> None:
    """Merge owners into the existing ones, by uid.

    The API server resolves a few conflicts itself, but not those of many tasks at the same time.
    """
    for attempt in range(_ATTEMPTS):
        try:
            objects.patch_object(session, item, body, "strategic")
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
            sleep(uniform(0, 0.1 * 2 ** min(attempt, 4)))
        else:
            return
