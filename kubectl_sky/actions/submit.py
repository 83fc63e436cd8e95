"""`submit`: send what `render` shows, and make it one thing that lives and dies together."""

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
_UNSEEN = (kinds.SECRET, kinds.PVC)  # listed only where the task has some: not all users may


@dataclass(frozen=True)
class Prepared:
    """Plans for this cluster, their manifests, and what of them is there already.

    `id` is the task's, or that of all tasks together.
    """

    id: str
    plans: tuple[Plan, ...]
    manifests: Manifests
    present: tuple[Json, ...]
    shared: Mapping[str, Json]  # metadata of the files that are there already, by name
    archives: Mapping[str, Mapping[str, Archive]]  # of each task's local files, by where they go
    notes: tuple[str, ...]  # about candidates, nodes and files, for the user
    dangers: tuple[Danger, ...] = ()

    @property
    def together(self) -> bool:
        """Whether it is a pipeline or group, and not a task that stands alone."""
        return names.PIPELINE in self.plans[0].labels

    @property
    def word(self) -> str:
        """What people call it."""
        if not self.together:
            return "task"
        parallel = self.plans[0].annotations[names.EXECUTION] == PARALLEL
        return "group" if parallel else "pipeline"

    @property
    def title(self) -> str:
        """The name of the whole, as the user wrote it."""
        plan = self.plans[0]
        return plan.annotations[names.PIPELINE_NAME] if self.together else plan.title

    @property
    def selector(self) -> str:
        """The label by which all objects are found."""
        return f"{names.PIPELINE if self.together else names.TASK_ID}={self.id}"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the objects that run it."""
        return frozenset(registry.named(plan.backend).kind.kind for plan in self.plans)

    @property
    def complete(self) -> bool:
        """Whether the same has been submitted already, to the last object, or is over already."""
        owned = [item for item in self.present if item["kind"] not in self.kinds]
        if not all(item["metadata"].get("ownerReferences") for item in owned):
            return False
        there = len(self.present) == len(self.manifests.own)
        return (there and self._shares) or self._over

    @property
    def _shares(self) -> bool:
        """Whether one of what runs keeps each of the files alive."""
        mine = {item["metadata"]["uid"] for item in self.present}
        wanted = [manifest.object["metadata"]["name"] for manifest in self.manifests.shared]
        return all(mine & sharing.owners(self.shared.get(name, {})) for name in wanted)

    @property
    def _over(self) -> bool:
        """A pipeline that failed lacks the tasks that were cancelled; they do not come back."""
        running = [item for item in self.present if item["kind"] in self.kinds]
        return any(each.state.ended for each in pipelines(status.tasks(running, [])))


def prepare(session: Session, draft: Draft, user: str | None) -> Prepared:
    """Decide everything, and compare with what is there. Sends nothing.

    Raises UserError when another task has the id, naming the fields that differ.
    """
    known = gathered(session, draft, user)
    missing = [said for task in draft.tasks for said in hidden.missing(task, known)]
    if missing:
        raise UserError("\n".join(dict.fromkeys(missing)))
    for part in draft.parts:
        if part.waits(draft.settings):
            queueing.check(part.task, known, draft.settings)
    decisions = draft.decide(known)
    plans = tuple(decision.plan for decision in decisions)
    gangs.check(session, plans)
    asked = [claim.storage_class for plan in plans for claim in plan.storage.fresh]
    told = (*draft.notes(decisions), *classes.notes(session, asked), *_partial(plans))
    manifests = draft.manifests(plans)
    shared = sharing.present(session, manifests.shared)
    archives = {part.task_id: part.archives for part in draft.parts}
    prepared = Prepared(
        draft.id, plans, manifests, (), shared, archives, told, draft.review.dangers
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
    """Add what is told about the files."""
    each = [one for found in prepared.archives.values() for one in found.values()]
    there = len(prepared.shared)
    about = packing.told(prepared.plans, each, there, again=prepared.complete)
    return replace(prepared, notes=(*prepared.notes, *about))


def _partial(plans: Sequence[Plan]) -> Iterator[str]:
    """Say so where nothing keeps some nodes from starting while there is no room for others."""
    for plan in plans:
        if len(plan.nodes) > 1 and not registry.named(plan.backend).gang:
            whose = f"{plan.title}: " if len(plans) > 1 else ""
            yield (
                f"warning: {whose}no gang scheduler: some of the {len(plan.nodes)} nodes may start"
                " and then wait for the others"
            )


def _as_sent(manifests: Manifests, present: Sequence[Json]) -> Manifests:
    """Keep what only the first submit decides: a token, and whether a task has been released."""
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
    """Return an object with the token of the one in the cluster, if both have one."""
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
    """Apply everything in order, and let what runs own the rest; `on_done` hears of each object.

    If a step fails, what this call created is removed again. Raises ClusterError.
    """
    _admitted(session, prepared)
    running = [manifest.object for manifest in prepared.manifests.workload]
    stages = [
        [manifest.object for manifest in prepared.manifests.auxiliary],
        [item for item in running if hold.held(item)],  # nothing runs before all is there
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
    """Return what creates an object; one of the task that is there has been compared already."""
    live = {f"{item['kind']}/{item['metadata']['name']}": item for item in present}

    def send_one(session: Session, manifest: Json, *, dry_run: bool) -> Answer:
        item = live.get(f"{manifest['kind']}/{manifest['metadata']['name']}")
        if item:
            return Answer(HTTPStatus.OK, item, "", retried=False)
        return objects.send_new(session, manifest, dry_run=dry_run, accept=sharing.accept)

    return send_one


def uids(prepared: Prepared, items: Iterable[Json]) -> frozenset[str]:
    """Return the uids of those objects that run the task."""
    running = (item["metadata"] for item in items if item["kind"] in prepared.kinds)
    return frozenset(metadata["uid"] for metadata in running)


def _present(session: Session, prepared: Prepared) -> list[Json]:
    """List what has the id, one request a kind; Secrets are read by name, as few may list them."""
    wanted = [manifest.object for manifest in prepared.manifests.auxiliary]
    secrets = [item for item in wanted if item["kind"] == kinds.SECRET.kind]
    found_kinds = dict.fromkeys(objects.known_kind(item) for item in wanted if item not in secrets)
    found_kinds.update(dict.fromkeys(kind for kind in AUXILIARY if kind not in _UNSEEN))
    namespace = prepared.plans[0].namespace
    with ThreadPoolExecutor(_WORKERS) as pool:
        lists = pool.map(
            lambda kind: objects.list_all(
                session, kind, namespace, label_selector=prepared.selector
            ),
            found_kinds,
        )
        auxiliary = [item for items in lists for item in items]
        listed = {f"{item['kind']}/{item['metadata']['name']}" for item in auxiliary}
        fresh = [one.object for one in prepared.manifests.auxiliary if one.name not in listed]
        auxiliary += filter(None, pool.map(lambda item: _existing(session, item), fresh))
    return auxiliary + listing.workloads(session, namespace, prepared.selector)


def _existing(session: Session, item: Json) -> Json | None:
    """Return the object that has the name of a manifest's; None without one.

    Raises UserError where it does not even have our labels.
    """
    kind, metadata = objects.known_kind(item), item["metadata"]
    with suppress(NotFound, Forbidden, NotServed):
        live = objects.get(session, kind, metadata["name"], metadata.get("namespace"))
        if names.TASK not in (live["metadata"].get("labels") or {}):
            sharing.accept(item, live)
        return live
    return None


def _refuse_other(session: Session, prepared: Prepared) -> None:
    """The same id means the same task; anything else would change a task that runs."""
    wanted = {manifest.name: manifest.object for manifest in prepared.manifests.own}
    found: list[str] = []
    other = names.TASK_ID if prepared.together else names.PIPELINE
    namespace = prepared.plans[0].namespace
    for live in (
        *prepared.present,
        *listing.workloads(session, namespace, f"{other}={prepared.id}"),
    ):
        name = f"{live['kind']}/{live['metadata']['name']}"
        if live["metadata"].get("deletionTimestamp"):
            raise UserError(
                f"task {prepared.id} is being deleted", "wait a moment, or use another --id"
            )
        if name not in wanted:
            found.append(f"{name}: would go")
        else:
            found += [f"{name}: {item}" for item in foreign(wanted[name], live)]
    if not found:
        return
    shown = "\n  ".join(found[:12]) + (f"\n  and {len(found) - 12} more" if found[12:] else "")
    raise UserError(
        f"--id {prepared.id} is another task already; these fields differ:\n  {shown}\n"
        f"use another --id, or stop that one first: kubectl sky stop {prepared.id}"
    )


def _admitted(session: Session, prepared: Prepared) -> None:
    """Ask the cluster to pretend to create a pod of each task, so that a refusal is known before.

    A Job is accepted whatever its pods are; a full quota, a policy or a webhook would only be seen
    as a Job without pods. Users who may create Jobs but not pods go without this.
    """
    first: dict[str, Json] = {}
    for manifest in prepared.manifests.workload:
        first.setdefault(manifest.object["metadata"]["labels"][names.TASK_ID], manifest.object)
    for item in first.values():
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
    """Make what runs the owner of what it needs: that goes when the last of them has gone.

    `running` are the kinds of objects that run. What no single task has belongs to all of them.
    """
    owners: dict[str | None, list[Json]] = defaultdict(list)
    owned = []
    for item in (done.object for done in applied):
        metadata = item["metadata"]
        if item["kind"] in running:
            named = {field: metadata[field] for field in ("name", "uid")}
            owner = {"apiVersion": item["apiVersion"], "kind": item["kind"]} | named
            owners[metadata["labels"].get(names.TASK_ID)].append(owner)
            owners[None].append(owner)
        else:
            owned.append(item)

    def adopt(item: Json) -> None:
        owning = owners[item["metadata"]["labels"].get(names.TASK_ID)]
        objects.amend(session, item, {"metadata": {"ownerReferences": owning}})

    try:
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(adopt, owned))
            list(pool.map(lambda item: sharing.own(session, item, owners[None]), shared))
    except (SkyError, KeyboardInterrupt):
        _undo(session, [done.object for done in applied if done.created], running)
        raise


def _undo(session: Session, items: Sequence[Json], first: Collection[str]) -> None:
    """Remove what was created, what runs first, so that no pod starts without what it needs."""
    for item in sorted(items, key=lambda item: item["kind"] not in first):
        objects.delete_same(session, objects.known_kind(item), item["metadata"])
