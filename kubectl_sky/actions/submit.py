"""`submit`: apply the rendered objects and tie them together by owner references."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus

from kubectl_sky import kinds, names
from kubectl_sky.actions import classes, gangs, listing, packing, sharing
from kubectl_sky.actions.draft import Draft
from kubectl_sky.actions.facts import gathered
from kubectl_sky.actions.stop import AUXILIARY
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import Applied, Send, apply_all
from kubectl_sky.cluster.session import Answer, Json, Session
from kubectl_sky.errors import Forbidden, NotFound, NotServed, SkyError, UserError
from kubectl_sky.facts import Archive
from kubectl_sky.observe import status
from kubectl_sky.observe.difference import foreign
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.plan import hidden, queueing
from kubectl_sky.plan.pipeline import PARALLEL
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.workloads import hold, registry

_WORKERS = 16
# Listed only if the task has some: not all users are allowed to.
_UNSEEN = (kinds.SECRET, kinds.PVC)


@dataclass(frozen=True)
class Prepared:
    """Plans for this cluster, their manifests, and which objects already exist.

    `id` is the id of the task, or of the pipeline or group.
    """

    id: str
    plans: tuple[Plan, ...]
    manifests: Manifests
    present: tuple[Json, ...]
    shared: Mapping[str, Json]  # metadata of the existing objects with shared files, by name
    archives: Mapping[str, Mapping[str, Archive]]  # by task id, then by target path
    notes: tuple[str, ...]  # about candidates, nodes and files, for the user
    dangers: tuple[Danger, ...] = ()

    @property
    def together(self) -> bool:
        """Whether this is a pipeline or group rather than a single task."""
        return names.PIPELINE in self.plans[0].labels

    @property
    def word(self) -> str:
        """Return "task", "pipeline" or "group"."""
        if not self.together:
            return "task"
        parallel = self.plans[0].annotations[names.EXECUTION] == PARALLEL
        return "group" if parallel else "pipeline"

    @property
    def title(self) -> str:
        """Return the name of the task, pipeline or group, as the user wrote it."""
        plan = self.plans[0]
        return plan.annotations[names.PIPELINE_NAME] if self.together else plan.title

    @property
    def selector(self) -> str:
        """Return the label selector that matches all objects."""
        return f"{names.PIPELINE if self.together else names.TASK_ID}={self.id}"

    @property
    def kinds(self) -> frozenset[str]:
        """Return the kinds of the workload objects."""
        return frozenset(registry.named(plan.backend).kind.kind for plan in self.plans)

    @property
    def complete(self) -> bool:
        """Whether an earlier submit created every object, or the pipeline has finished."""
        owned = [item for item in self.present if item["kind"] not in self.kinds]
        if not all(item["metadata"].get("ownerReferences") for item in owned):
            return False
        all_present = len(self.present) == len(self.manifests.own)
        return (all_present and self._shares) or self._over

    @property
    def _shares(self) -> bool:
        """Whether each shared object is owned by one of the existing objects."""
        present_uids = {item["metadata"]["uid"] for item in self.present}
        shared_names = [manifest.object["metadata"]["name"] for manifest in self.manifests.shared]
        return all(
            present_uids & sharing.owners(self.shared.get(name, {})) for name in shared_names
        )

    @property
    def _over(self) -> bool:
        """Whether the pipeline has finished.

        A failed pipeline lacks its cancelled tasks, and they are not created again.
        """
        running = [item for item in self.present if item["kind"] in self.kinds]
        return any(pipeline.state.ended for pipeline in pipelines(status.tasks(running, [])))


def prepare(session: Session, draft: Draft, user: str | None) -> Prepared:
    """Decide how the tasks run and compare with existing objects. Sends nothing.

    Raises UserError, with the fields that differ, when another task has the id.
    """
    facts = gathered(session, draft, user)
    missing = [message for task in draft.tasks for message in hidden.missing(task, facts)]
    if missing:
        raise UserError("\n".join(dict.fromkeys(missing)))
    for part in draft.parts:
        if part.waits(draft.settings):
            queueing.check(part.task, facts, draft.settings)
    decisions = draft.decide(facts)
    plans = tuple(decision.plan for decision in decisions)
    gangs.check(session, plans)
    storage_classes = [claim.storage_class for plan in plans for claim in plan.storage.fresh]
    notes = (*draft.notes(decisions), *classes.notes(session, storage_classes), *_partial(plans))
    manifests = draft.manifests(plans)
    shared = sharing.present(session, manifests.shared)
    archives = {part.task_id: part.archives for part in draft.parts}
    prepared = Prepared(
        draft.id, plans, manifests, (), shared, archives, notes, draft.review.dangers
    )
    if not draft.given_id:
        return _told(prepared)
    present = _present(session, prepared)
    prepared = replace(
        prepared, present=tuple(present), manifests=_as_sent(prepared.manifests, present)
    )
    _refuse_other(session, prepared)
    return _told(prepared)


def _told(prepared: Prepared) -> Prepared:
    """Add the notes about local files."""
    archives = [
        archive
        for task_archives in prepared.archives.values()
        for archive in task_archives.values()
    ]
    present_count = len(prepared.shared)
    file_notes = packing.told(prepared.plans, archives, present_count, again=prepared.complete)
    return replace(prepared, notes=(*prepared.notes, *file_notes))


def _partial(plans: Sequence[Plan]) -> Iterator[str]:
    """Warn about tasks of several nodes without gang scheduling.

    Some of their nodes may start while there is no capacity for the rest.
    """
    for plan in plans:
        if len(plan.nodes) > 1 and not registry.named(plan.backend).gang:
            prefix = f"{plan.title}: " if len(plans) > 1 else ""
            yield (
                f"warning: {prefix}no gang scheduler: some of the {len(plan.nodes)} nodes may start"
                " and then wait for the others"
            )


def _as_sent(manifests: Manifests, present: Sequence[Json]) -> Manifests:
    """Keep what only the first submit decides: the token and the suspended state."""
    live = {f"{item['kind']}/{item['metadata']['name']}": item for item in present}
    return replace(
        manifests,
        auxiliary=tuple(
            replace(manifest, object=_with_token(manifest.object, live.get(manifest.name, {})))
            for manifest in manifests.auxiliary
        ),
        workload=tuple(
            replace(manifest, object=hold.copied(manifest.object, live[manifest.name]))
            if manifest.name in live
            else manifest
            for manifest in manifests.workload
        ),
    )


def _with_token(item: Json, live: Json) -> Json:
    """Copy the token of the live object, if both objects have one."""
    data, token = item.get("data") or {}, (live.get("data") or {}).get(hidden.TOKEN)
    if item["kind"] != kinds.SECRET.kind or hidden.TOKEN not in data or token is None:
        return item
    return item | {"data": data | {hidden.TOKEN: token}}


def send(
    session: Session,
    prepared: Prepared,
    dry_run: bool = False,
    on_done: Callable[[Applied], None] | None = None,
) -> list[Applied]:
    """Apply all objects in order and make the workloads own the rest.

    `on_done` is called for each object. If a step fails, the objects that this call created are
    deleted. Raises ClusterError.
    """
    _admitted(session, prepared)
    running = [manifest.object for manifest in prepared.manifests.workload]
    stages = [
        [manifest.object for manifest in prepared.manifests.auxiliary],
        # Suspended workloads come first: nothing runs until all objects exist.
        [item for item in running if hold.held(item)],
        [item for item in running if not hold.held(item)],
    ]
    with sharing.sent(session, prepared.manifests.shared, prepared.shared, dry_run) as shared:
        how = _sender(prepared.present)
        applied = apply_all(
            session, stages, dry_run=dry_run, workers=_WORKERS, on_done=on_done, send=how
        )
        if not dry_run:
            _adopt(session, applied, shared, prepared.kinds)
    return applied


def _sender(present: Iterable[Json]) -> Send:
    """Return a function that creates an object.

    It skips existing objects of the task: `prepare` has compared them already.
    """
    live = {f"{item['kind']}/{item['metadata']['name']}": item for item in present}

    def send_one(session: Session, manifest: Json, *, dry_run: bool) -> Answer:
        item = live.get(f"{manifest['kind']}/{manifest['metadata']['name']}")
        if item:
            return Answer(HTTPStatus.OK, item, "", retried=False)
        return objects.send_new(session, manifest, dry_run=dry_run, accept=sharing.accept)

    return send_one


def uids(prepared: Prepared, items: Iterable[Json]) -> frozenset[str]:
    """Return the uids of the workload objects among the items."""
    running = (item["metadata"] for item in items if item["kind"] in prepared.kinds)
    return frozenset(metadata["uid"] for metadata in running)


def _present(session: Session, prepared: Prepared) -> list[Json]:
    """List the existing objects with the id, one request per kind.

    Secrets are read by name: few users are allowed to list them.
    """
    auxiliary_objects = [manifest.object for manifest in prepared.manifests.auxiliary]
    secrets = [item for item in auxiliary_objects if item["kind"] == kinds.SECRET.kind]
    listed_kinds = dict.fromkeys(
        objects.known_kind(item) for item in auxiliary_objects if item not in secrets
    )
    listed_kinds.update(dict.fromkeys(kind for kind in AUXILIARY if kind not in _UNSEEN))
    namespace = prepared.plans[0].namespace
    with ThreadPoolExecutor(_WORKERS) as pool:
        lists = pool.map(
            lambda kind: objects.list_all(
                session, kind, namespace, label_selector=prepared.selector
            ),
            listed_kinds,
        )
        auxiliary = [item for items in lists for item in items]
        listed_names = {f"{item['kind']}/{item['metadata']['name']}" for item in auxiliary}
        unlisted = [
            candidate.object
            for candidate in prepared.manifests.auxiliary
            if candidate.name not in listed_names
        ]
        auxiliary += filter(None, pool.map(lambda item: _existing(session, item), unlisted))
    return auxiliary + listing.workloads(session, namespace, prepared.selector)


def _existing(session: Session, item: Json) -> Json | None:
    """Fetch the object with the name of a manifest; None if not found.

    Raises UserError if it lacks our labels and `sharing.accept` rejects it.
    """
    kind, metadata = objects.known_kind(item), item["metadata"]
    with suppress(NotFound, Forbidden, NotServed):
        live = objects.get(session, kind, metadata["name"], metadata.get("namespace"))
        if names.TASK not in (live["metadata"].get("labels") or {}):
            sharing.accept(item, live)
        return live
    return None


def _refuse_other(session: Session, prepared: Prepared) -> None:
    """Refuse an id that belongs to another task.

    Otherwise the submit would change a running task.
    """
    expected = {manifest.name: manifest.object for manifest in prepared.manifests.own}
    mismatches: list[str] = []
    other_label = names.TASK_ID if prepared.together else names.PIPELINE
    namespace = prepared.plans[0].namespace
    for live in (
        *prepared.present,
        *listing.workloads(session, namespace, f"{other_label}={prepared.id}"),
    ):
        name = f"{live['kind']}/{live['metadata']['name']}"
        if live["metadata"].get("deletionTimestamp"):
            raise UserError(
                f"task {prepared.id} is being deleted", "wait a moment, or use another --id"
            )
        if name not in expected:
            mismatches.append(f"{name}: would go")
        else:
            mismatches += [f"{name}: {field}" for field in foreign(expected[name], live)]
    if not mismatches:
        return
    shown = "\n  ".join(mismatches[:12]) + (
        f"\n  and {len(mismatches) - 12} more" if mismatches[12:] else ""
    )
    raise UserError(
        f"--id {prepared.id} is another task already; these fields differ:\n  {shown}\n"
        f"use another --id, or stop that one first: kubectl sky stop {prepared.id}"
    )


def _admitted(session: Session, prepared: Prepared) -> None:
    """Dry-run the creation of a pod of each task, to report rejections early.

    The API server accepts a Job whatever its pods are. A full quota, a policy or a webhook would
    only show as a Job without pods. Users who can create Jobs but not pods skip this check.
    """
    workloads: dict[str, Json] = {}
    for manifest in prepared.manifests.workload:
        workloads.setdefault(manifest.object["metadata"]["labels"][names.TASK_ID], manifest.object)
    for item in workloads.values():
        for template in registry.of(item).templates(item):
            metadata = {
                **template["metadata"],
                "generateName": item["metadata"]["name"] + "-",
                "namespace": item["metadata"]["namespace"],
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            try:
                objects.create(session, pod | {"spec": template["spec"]}, dry_run=True)
            except Forbidden:
                return


def _adopt(
    session: Session,
    applied: Sequence[Applied],
    shared: Sequence[Json],
    running: Collection[str],
) -> None:
    """Make the workloads own the other objects, so that they are garbage-collected.

    `running` holds the kinds of workloads. Objects that belong to no single task are owned by the
    workloads of all tasks. They are deleted with their last owner.
    """
    owners: dict[str | None, list[Json]] = defaultdict(list)
    owned = []
    for item in (result.object for result in applied):
        metadata = item["metadata"]
        if item["kind"] in running:
            identity = {field: metadata[field] for field in ("name", "uid")}
            owner = {"apiVersion": item["apiVersion"], "kind": item["kind"]} | identity
            owners[metadata["labels"].get(names.TASK_ID)].append(owner)
            owners[None].append(owner)
        else:
            owned.append(item)

    def adopt(item: Json) -> None:
        references = owners[item["metadata"]["labels"].get(names.TASK_ID)]
        objects.amend(session, item, {"metadata": {"ownerReferences": references}})

    try:
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(adopt, owned))
            list(pool.map(lambda item: sharing.own(session, item, owners[None]), shared))
    except (SkyError, KeyboardInterrupt):
        _undo(session, [result.object for result in applied if result.created], running)
        raise


def _undo(session: Session, items: Sequence[Json], first: Collection[str]) -> None:
    """Delete the created objects, workloads first.

    Otherwise a pod could start without the objects that it needs.
    """
    for item in sorted(items, key=lambda item: item["kind"] not in first):
        objects.delete_same(session, objects.known_kind(item), item["metadata"])
