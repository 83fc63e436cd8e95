"""`submit`: send what `render` shows, and make it one thing that lives and dies together."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kubectl_sky import kinds, names
from kubectl_sky.actions import classes, find, volumes, who
from kubectl_sky.actions.draft import Draft
from kubectl_sky.actions.stop import AUXILIARY
from kubectl_sky.cluster import access, objects
from kubectl_sky.cluster.apply import Applied, apply_all
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, SkyError, UserError
from kubectl_sky.facts import Access, Facts, Machine
from kubectl_sky.kinds import Kind
from kubectl_sky.observe.difference import differences
from kubectl_sky.plan.placement import wants_machines
from kubectl_sky.plan.plan import Plan
from kubectl_sky.render.manifests import Manifests
from kubectl_sky.workloads import registry
from kubectl_sky.workloads.choice import questions

_WORKERS = 16
_UNSEEN = (kinds.SECRET, kinds.PVC)  # listed only where the task has some: not all users may


@dataclass(frozen=True)
class Prepared:
    """A plan for this cluster, its manifests, and what of them is there already."""

    plan: Plan
    manifests: Manifests
    present: tuple[Json, ...]
    notes: tuple[str, ...]  # about candidates and nodes, for the user

    @property
    def kind(self) -> Kind:
        """Of the objects that run it."""
        return registry.named(self.plan.backend).kind

    @property
    def complete(self) -> bool:
        """Whether the same task has been submitted already, to the last object."""
        owned = [item for item in self.present if item["kind"] != self.kind.kind]
        adopted = all(item["metadata"].get("ownerReferences") for item in owned)
        return adopted and len(self.present) == len(self.manifests.all)


def facts(session: Session, draft: Draft, user: str | None) -> Facts:
    """Ask the cluster who asks, what volume names stand for, and for its nodes if they matter."""
    found = who.user(session, user)
    claims = volumes.claims(session, found) if draft.task.volumes else None
    nodes = machines(session) if wants_machines(draft.task) else ()
    asked = questions(draft.backend, draft.task.num_nodes)
    return Facts(
        user=found,
        namespace=session.namespace,
        claims=claims,
        machines=nodes,
        access={kind: _access(session, kind) for kind in asked},
    )


def _access(session: Session, kind: Kind) -> Access:
    if not access.serves(session, kind):
        return Access.ABSENT
    allowed = access.may_create(session, kind, session.namespace)
    return Access.USABLE if allowed else Access.FORBIDDEN


def machines(session: Session) -> tuple[Machine, ...]:
    """Return the cluster's nodes; none without the right to list them."""
    try:
        nodes = CoreManager(session).list_nodes()
    except Forbidden:
        return ()
    return tuple(
        Machine(
            labels=node["metadata"].get("labels") or {},
            allocatable=(node.get("status") or {}).get("allocatable") or {},
        )
        for node in nodes
    )


def prepare(session: Session, draft: Draft, user: str | None) -> Prepared:
    """Decide everything, and compare with what is there. Sends nothing.

    Raises UserError when another task has the id, naming the fields that differ.
    """
    known = facts(session, draft, user)
    plan = draft.plan(known)
    manifests = draft.manifests(plan)
    present = _present(session, manifests, plan) if draft.given_id else []
    _refuse_other(manifests, present, plan)
    storage = classes.notes(session, [claim.storage_class for claim in plan.storage.fresh])
    notes = (*draft.notes(known), *storage, *_partial(plan))
    return Prepared(plan, manifests, tuple(present), notes)


def _partial(plan: Plan) -> Iterator[str]:
    """Say so where nothing keeps some nodes from starting while there is no room for others."""
    if len(plan.nodes) > 1 and not registry.named(plan.backend).gang:
        count = f"{len(plan.nodes)} nodes without a gang scheduler"
        yield f"{count}: some may start, and wait, while there is no room for the others"


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
    stages = [
        [manifest.object for manifest in prepared.manifests.auxiliary],
        [manifest.object for manifest in prepared.manifests.workload],
    ]
    applied = apply_all(session, stages, dry_run=dry_run, workers=_WORKERS, on_done=on_done)
    if not dry_run:
        _adopt(session, applied, prepared.kind)
    return applied


def _present(session: Session, manifests: Manifests, plan: Plan) -> list[Json]:
    """List what has the task's id, one request a kind."""
    found_kinds = dict.fromkeys(objects.known_kind(m.object) for m in manifests.auxiliary)
    found_kinds.update(dict.fromkeys(kind for kind in AUXILIARY if kind not in _UNSEEN))
    selector = names.selector(task_id=plan.id)
    with ThreadPoolExecutor(_WORKERS) as pool:
        lists = pool.map(
            lambda kind: objects.list_all(session, kind, plan.namespace, label_selector=selector),
            found_kinds,
        )
        auxiliary = [item for items in lists for item in items]
    return auxiliary + find.workloads(session, plan.namespace, selector)


def _refuse_other(manifests: Manifests, present: Sequence[Json], plan: Plan) -> None:
    """The same id means the same task; anything else would change a task that runs."""
    wanted = {manifest.name: manifest.object for manifest in manifests.all}
    found: list[str] = []
    for live in present:
        name = f"{live['kind']}/{live['metadata']['name']}"
        if live["metadata"].get("deletionTimestamp"):
            raise UserError(
                f"task {plan.id} is being deleted", "wait a moment, or use another --id"
            )
        if name not in wanted:
            found.append(f"{name}: would go")
        else:
            found += [f"{name}: {item}" for item in differences(wanted[name], live)]
    if not found:
        return
    shown = "\n  ".join(found[:12]) + (f"\n  and {len(found) - 12} more" if found[12:] else "")
    raise UserError(
        f"--id {plan.id} is another task already; these fields differ:\n  {shown}\n"
        f"use another --id, or stop that one first: kubectl sky stop {plan.id}"
    )


def _admitted(session: Session, prepared: Prepared) -> None:
    """Ask the cluster to pretend to create a node's pod, so that what it refuses is known before.

    A Job is accepted whatever its pods are; a full quota, a policy or a webhook would only be seen
    as a Job without pods. Users who may create Jobs but not pods go without this.
    """
    item = prepared.manifests.workload[0].object
    for template in registry.named(prepared.plan.backend).templates(item):
        metadata = {
            **template["metadata"],
            "generateName": item["metadata"]["name"] + "-",
            "namespace": item["metadata"]["namespace"],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        try:
            objects.create(session, pod, dry_run=True)
        except Forbidden:
            return


def _adopt(session: Session, applied: Sequence[Applied], kind: Kind) -> None:
    """Make what runs the owner of what it needs: that goes when the last of them has gone."""
    owners = [
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "name": done.object["metadata"]["name"],
            "uid": done.object["metadata"]["uid"],
        }
        for done in applied
        if done.object["kind"] == kind.kind
    ]
    owned = [done.object for done in applied if done.object["kind"] != kind.kind]

    def adopt(item: Json) -> None:
        kind, metadata = objects.known_kind(item), item["metadata"]
        body = {"metadata": {"ownerReferences": owners}}
        objects.patch(session, kind, metadata["name"], metadata["namespace"], body)

    try:
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(adopt, owned))
    except (SkyError, KeyboardInterrupt):
        _undo(session, [done.object for done in applied if done.created], kind)
        raise


def _undo(session: Session, items: Sequence[Json], first: Kind) -> None:
    """Remove what was created, what runs first, so that no pod starts without what it needs."""
    for item in sorted(items, key=lambda item: item["kind"] != first.kind):
        metadata = item["metadata"]
        objects.delete(session, objects.known_kind(item), metadata["name"], metadata["namespace"])
