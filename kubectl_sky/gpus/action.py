"""`gpus`, `top` and `usage`: the GPUs of the cluster, the usage of tasks, their GPU-hours."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, timedelta
from functools import partial
from itertools import chain
from threading import Event

from msgspec import Struct

from kubectl_sky.cluster import access, objects, parallel
from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import (
    ClusterError,
    Forbidden,
    NotServed,
    SkyError,
    TimedOut,
    UserError,
)
from kubectl_sky.gpus import hours, model, smi
from kubectl_sky.gpus.hours import Usage
from kubectl_sky.gpus.model import AcceleratorNode, Allocation, Holding, NodeUsage
from kubectl_sky.gpus.smi import Gpu
from kubectl_sky.observe.nodes import NodeStatus, State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import devices, find
from kubectl_sky.tasks.exec import in_nodes
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, names

_SMI_SECONDS = 15.0  # of the whole run in one node
_SMI_BYTES = 1 << 20  # that it may print; of those, 64 KiB are read
_UNFINISHED_PODS = "status.phase!=Succeeded,status.phase!=Failed"


def accelerators(session: Session) -> list[AcceleratorNode]:
    """Return the cluster nodes with accelerators and their users; two parallel lists.

    ResourceClaims are listed if DRA drivers have published devices.

    The usage is unknown without permission to list all pods. Raises Forbidden without permission to
    list cluster nodes.
    """

    def holdings() -> list[Holding] | None:
        query = objects.selectors(fields=_UNFINISHED_PODS)
        try:
            return objects.extract(session, kinds.POD, None, query, model.holding)
        except Forbidden:
            return None

    def allocations() -> list[Allocation] | None:
        with suppress(Forbidden, NotServed):
            kind = kinds.RESOURCE_CLAIM
            return objects.extract(session, kind, None, {}, model.allocation)
        return None

    with parallel.pool(2) as pool:
        listed = pool.submit(devices.list_cluster_nodes, session)
        held = pool.submit(holdings)
        nodes = listed.result()
        claims = allocations() if any(node.devices for node in nodes) else None
        return model.accelerator_nodes(nodes, held.result(), claims)


def candidates(session: Session) -> Iterator[tuple[str, str]]:
    """Yield the models of the cluster and how many are free, to complete a command line."""
    groups: dict[str, list[AcceleratorNode]] = {}
    for node in accelerators(session):
        if node.model:
            groups.setdefault(node.model, []).append(node)
    for name, nodes in groups.items():
        free = [node.free for node in nodes if node.free is not None]
        note = f"{sum(free)} free" if free else ""
        yield name, note


def top(session: Session, task: TaskStatus) -> list[NodeUsage]:
    """Return the usage of a task's nodes. Raises NotServed without a metrics API."""
    selector = names.selector({names.TASK_ID: task.id})
    try:
        metrics = objects.list_all(
            session, kinds.POD_METRICS, task.namespace, label_selector=selector
        )
    except (NotServed, Forbidden) as error:
        # A kind that is not served may be reported as forbidden.
        if access.serves(session, kinds.POD_METRICS):
            raise
        raise NotServed("the cluster has no metrics API", "install metrics-server") from error
    pods = CoreManager(session).list_pods(task.namespace, selector)
    return model.uses(task.nodes, pods, metrics)


def usage(session: Session, scope: Scope, since: timedelta, by: str) -> Usage:
    """Return the GPU-hours of the tasks of a scope, by user, task name or GPU.

    For models of GPUs, it reads the cluster nodes in another request.
    """
    with_models = by == "gpu"
    tasks = find.list_objects(session, scope)
    labels = _labels(session) if with_models else {}
    now = session.now()
    start = now - since
    spans = [span for span in hours.spans(tasks, now, labels) if span.end > start]
    return Usage(
        since=start.astimezone(UTC).replace(microsecond=0),
        by=by,
        rows=[row.rounded for row in hours.rows(spans, by, start)],
        total=hours.total(spans, start).rounded,
        inexact=hours.inexact(spans),
        goodput=hours.goodput(spans, tasks, start),
    )


def _labels(session: Session) -> hours.Labels:
    """Return the labels of the cluster nodes; empty without permission to list them."""
    with suppress(Forbidden):
        nodes = objects.list_metadata(session, kinds.NODE)
        return {node.metadata.name: node.metadata.labels for node in nodes}
    return {}


class GpuReport(Struct, frozen=True):
    """The GPUs of a task's running nodes, and the nodes whose GPUs cannot be read."""

    gpus: tuple[Gpu, ...]
    failures: tuple[tuple[NodeStatus, SkyError], ...]


def gpus(session: Session, task: TaskStatus) -> GpuReport:
    """Run nvidia-smi or rocm-smi in the running nodes of a task, in parallel.

    Raises UserError if no node runs, and the error of the first node if none can be read.
    """
    nodes = [node for node in task.nodes if node.state is State.RUNNING and node.pod]
    if not nodes:
        raise UserError(
            f"no node of task {task.id} is running", f"see `kubectl sky status {task.id}`"
        )
    answers = in_nodes(nodes, partial(_gpus_of, session, task))
    failures = [(it, answer) for it in nodes if isinstance(answer := answers[it.index], SkyError)]
    found = [answer for answer in answers.values() if not isinstance(answer, SkyError)]
    report = GpuReport(tuple(chain.from_iterable(found)), tuple(failures))
    if not report.gpus:
        raise report.failures[0][1]
    return report


def _gpus_of(session: Session, task: TaskStatus, node: NodeStatus, stop: Event) -> list[Gpu]:
    words = ["/bin/sh", "-c", smi.SCRIPT]
    program = Program(task.namespace, node.pod, names.CONTAINER, words)
    out = FirstBytes(limit=_SMI_BYTES)
    err = FirstBytes(limit=_SMI_BYTES)
    pipes = Pipes(stdout=out, stderr=err, seconds=_SMI_SECONDS, stop=stop)

    try:
        code = executing.run(session, program, pipes)
    except TimedOut:
        name = smi.program(out.data)  # it hangs if a GPU or its driver fails
        command = f"kubectl sky exec {task.id} --rank {node.index} -- {name or 'nvidia-smi'}"
        raise TimedOut(
            f"{name or 'nvidia-smi or rocm-smi'} in pod {node.pod} did not answer within"
            f" {_SMI_SECONDS:g} seconds",
            f'run "{command}"; if it hangs too, check the GPU driver of cluster node "{node.host}"',
        ) from None

    if code:
        raise ClusterError(smi.failure(code, out.data, err.data))
    try:
        return smi.read(node, out.data)
    except ValueError as error:
        raise ClusterError(f"cannot read the GPUs of pod {node.pod}: {error}") from None
