"""Build the plan of a task and its notes from facts and settings, without any I/O."""

import shlex
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from kubectl_sky.plan import (
    accelerators,
    buckets,
    environment,
    fair_share,
    high_speed_network,
    ports,
    queueing,
    runtime,
    storage,
    tpu,
)
from kubectl_sky.plan.environment import find_login, full_image
from kubectl_sky.plan.high_speed_network import find_network
from kubectl_sky.plan.local_files import FileTransfer, plan_transfer
from kubectl_sky.plan.placement import Placement
from kubectl_sky.plan.plan import Plan, Toleration
from kubectl_sky.plan.pod_options import PodOptions, account_depends_on_context, build_pod_options
from kubectl_sky.plan.resources import default_image, default_notes, node_limits, node_requests
from kubectl_sky.plan.storage import ObjectNames, PodStorage, plan_storage
from kubectl_sky.plan.task_metadata import array_annotations, build_metadata
from kubectl_sky.spec.bashisms import find_need
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.lifecycle import Recovery
from kubectl_sky.spec.task import Resources, Task
from kubectl_sky.words import assets, names
from kubectl_sky.words.facts import Facts
from kubectl_sky.words.settings import Settings

_HOLD = ("config", "kubectl_sky", "hold_on_failure")
_START_RETRIES = 3  # with the pauses of Kubernetes, they take a bit more than a minute
_BACKEND = ("config", "kubectl_sky", "backend")
_ON_HANG = ("config", "kubectl_sky", "on_hang")
_RAY = ("ray.sh", "ray_start_cluster.sh", "ray_stop_cluster.sh")  # SkyPilot's ~/sky_templates/ray
MAX_SCRIPTS = 900_000  # bytes; a ConfigMap is limited to 1 MiB, including metadata


def resolve(
    task: Task, task_id: str, placement: Placement, facts: Facts, settings: Settings
) -> Plan:
    """Build the plan of a task; raise FieldError if anything it requires is missing."""
    task = runtime.keep_running(task)
    resources = placement.resources
    requests = node_requests(placement, settings)
    network = find_network(placement, facts)

    pod_options = build_pod_options(task, resources, facts, settings)
    metadata = build_metadata(task, task_id, facts, placement, pod_options.queue)
    name = metadata.object_name
    login = find_login(task, metadata.object_name)
    image = full_image(resources.image, login) or default_image(placement, settings)

    volumes = plan_storage(task, facts, settings, ObjectNames(name, metadata.labels, image))
    file_transfer = plan_transfer(task.files, name, facts)
    env = environment.variables(task, name, placement, facts, volumes.links, settings)
    scripts = _scripts(task, file_transfer)

    recovery = resources.recovery or Recovery()
    tries_starts_again = resources.recovery is not None and not recovery.restarts
    start_retries = _START_RETRIES if tries_starts_again else 0
    service = name if task.num_nodes > 1 else None

    return Plan(
        id=task_id,
        name=name,
        namespace=facts.namespace,
        labels=metadata.labels,
        annotations={**metadata.annotations, **file_transfer.annotations, **volumes.logs.index},
        selector=metadata.selector,
        nodes=metadata.nodes(task.num_nodes),
        image=image,
        login=login,
        env={**network.env, **env, **volumes.logs.env, **buckets.kept_files(task)},
        secrets=environment.secret_values(task, facts),
        secret_env=environment.secret_variables(task, facts, name),
        requests=requests,
        limits={**node_limits(placement, requests, task.kubernetes.limits), **network.resources},
        storage=volumes,
        **_scheduling(task, placement),
        priority_class=_priority_class(task, pod_options, resources, facts, settings),
        max_seconds=task.max_seconds,
        grace_seconds=runtime.grace_seconds(task),
        ttl_seconds=resources.ttl_seconds,
        restarts=recovery.restarts,
        start_retries=start_retries,
        recovers=resources.recovery is not None,
        exit_codes=recovery.exit_codes,
        shared_memory=_needs_shared_memory(placement, scripts, volumes),
        backend=task.backend or names.DEFAULT_BACKEND,
        scripts=scripts,
        pod_annotations=_pod_annotations(task, volumes, file_transfer, pod_options),
        pod_options=pod_options,
        file_transfer=file_transfer,
        service=service,
        ports=ports.ports(task, resources, name, settings),
        network=network,
        hold=task.hold,
    )


def _scheduling(task: Task, placement: Placement) -> dict[str, Any]:
    return {
        "terms": placement.terms,
        "exclude_nodes": task.exclude_nodes,
        "preferred": placement.preferred,
        "tolerations": _tolerations(placement),
    }


def _needs_shared_memory(
    placement: Placement, scripts: dict[str, str], volumes: PodStorage
) -> bool:
    needed = placement.device is not None or _RAY[0] in scripts
    return needed and not volumes.mounts_shared_memory


def _pod_annotations(
    task: Task, volumes: PodStorage, file_transfer: FileTransfer, pod_options: PodOptions
) -> dict[str, str]:
    """Return the annotations; some say what the startup probe waits for."""
    awaited = {
        names.AWAITS_UPLOAD: bool(file_transfer.large_files),
        names.AWAITS_NODES: task.num_nodes > 1,
    }
    is_ours = not pod_options.has_startup_probe
    probed = {name: "true" for name, is_set in awaited.items() if is_set and is_ours}
    return {
        **task.kubernetes.annotations,
        **array_annotations(task),
        **volumes.annotations,
        **probed,
    }


def _priority_class(
    task: Task, pod_options: PodOptions, resources: Resources, facts: Facts, settings: Settings
) -> str | None:
    """Return the pods' priority class; None if the Kueue label already sets one."""
    if task.backend == "volcano" and not resources.priority_class:
        fair = fair_share.priority_class(
            settings, pod_options.queue, facts.user.name, facts.namespace
        )
        if fair:
            return fair
    queued = names.QUEUE_CLASS in pod_options.queueing
    return None if queued else queueing.find_priority_class(resources, settings)


def _bash(task: Task) -> dict[str, str]:
    """Return the script that fails in an image without bash, if the task's scripts need it.

    A setup that names bash may install it for `run`.
    """
    for phase, script in (("setup", task.setup or ""), ("run", task.run or "")):
        if phase == "run" and "bash" in (task.setup or ""):
            break
        if need := find_need(script):
            text = f"{phase} uses {need.name} on line {need.line}"
            values = (text, "") if need.only_bash else ("", text)
            lines = f"of_bash={shlex.quote(values[0])}\nof_busybox={shlex.quote(values[1])}\n"
            return {"bash.sh": lines + assets.read("runtime", "bash.sh")}
    return {}


def _tolerations(placement: Placement) -> tuple[Toleration, ...]:
    """Return tolerations for the usual taints of GPU and spot nodes.

    GPU nodes are often tainted with the resource name, spot nodes with their label.
    """
    devices = (Toleration(placement.device.resource),) if placement.device else ()
    rules = accelerators.SPOT_RULES if placement.resources.spot else ()
    return devices + tuple(Toleration(rule.key, "Equal", rule.values[0]) for rule in rules)


def _scripts(task: Task, file_transfer: FileTransfer) -> dict[str, str]:
    """Return the files of this task that a node starts from. Raises FieldError if too large."""
    scripts = {"files.txt": file_transfer.unpack_paths} if file_transfer.unpack_paths else {}
    if task.repository:
        repository = task.repository
        login = task.repository.login
        lines = (repository.url, repository.ref, login.username, login.password)
        scripts["repository.txt"] = "".join(f"{line}\n" for line in lines)

    if task.setup:
        scripts["setup.sh"] = task.setup
    if task.run:
        scripts["run.sh"] = task.run

    if "sudo" in f"{task.setup} {task.run}":  # gives root a sudo
        scripts["sudo.sh"] = assets.read("runtime", "sudo.sh")
    if "sky_templates" in f"{task.setup} {task.run}":
        scripts |= {name: assets.read("runtime", name) for name in _RAY}
    scripts |= {**_bash(task), **runtime.hook_scripts(task), **task.scripts}

    size = sum(len(text.encode()) for text in scripts.values())
    if size > MAX_SCRIPTS:
        larger = max(("run", "setup"), key=lambda field: len(getattr(task, field) or ""))
        raise FieldError(
            (larger,),
            f"the scripts have {size:,} bytes; a ConfigMap can hold {MAX_SCRIPTS:,}",
            "move large text to a file in workdir, a volume or the image",
        )
    return scripts


def notes(task: Task, placement: Placement, facts: Facts, settings: Settings) -> Iterator[str]:
    """Yield notes on the chosen candidate, missing cluster features and defaults."""
    yield from placement.notes
    yield from runtime.interactive_notes(task)
    yield from task.notes

    context = placement.resources.context
    if context:  # cleared once a context has been chosen
        yield f"infra: submit uses context {context}, kubectl apply the current one"

    resources = placement.resources
    if resources.priority is not None and not queueing.find_priority_class(resources, settings):
        yield (
            f"priority: {resources.priority} is written as the annotation {names.PRIORITY} only;"
            " priority_classes of the settings names a PriorityClass for it"
        )

    yield from default_notes(placement, settings)
    yield from storage.notes(task, facts)
    yield from buckets.notes(task, settings)
    yield from high_speed_network.notes(placement, facts)
    yield from ports.notes(task, placement.resources, settings)
    yield from queueing.notes(task, settings)

    if task.hold and placement.device:
        gpus = f"{placement.device.count} GPU{'s' if placement.device.count > 1 else ''}"
        yield f"hold_on_failure: a node that fails keeps its {gpus} for up to {task.hold}"
    if account_depends_on_context(task.kubernetes.accounts, facts.context or context or ""):
        yield "remote_identity: the service account depends on kubectl's context; submit writes it"


def _find_refusals_of_on_hang(task: Task) -> Iterator[FieldError]:
    if task.on_hang is None:
        return
    action = task.on_hang.action
    recovery = task.resources.recovery or Recovery()
    if task.array or task.num_nodes == 1:
        message = "only the nodes of a task are compared, and it has one"
        yield FieldError(_ON_HANG, message, "remove it")
    elif action == "restart" and not recovery.restarts:
        hint = "add resources.job_recovery: {max_restarts_on_errors: 3}"
        yield FieldError(_ON_HANG, "job_recovery has no restarts", hint)
    elif action == "fail" and recovery.restarts:
        hint = "use restart, or remove the restarts of job_recovery"
        yield FieldError(_ON_HANG, "job_recovery would start the node again", hint)


def _find_refusals_of_slurm(task: Task) -> Iterator[FieldError]:
    uses_srun = task.slurm == "ranks" or (task.slurm and "srun" in (task.run or ""))
    if uses_srun and task.backend == "mpijob" and task.num_nodes > 1:
        message = "srun starts nothing on the other nodes of an MPIJob"
        yield FieldError(_BACKEND, message, "use mpirun in the script, or remove the backend")


def find_refusals(task: Task, settings: Settings) -> Iterator[FieldError]:
    """Yield an error for what cannot be combined, lacks a setting, or is unknown."""
    recovery = task.resources.recovery
    if task.hold and recovery and (recovery.restarts or recovery.exit_codes):
        message = "a failed node cannot both be held and start again"
        yield FieldError(_HOLD, message, "remove it, or the restarts of job_recovery")
    yield from _find_refusals_of_on_hang(task)
    yield from _find_refusals_of_slurm(task)

    for bucket in task.buckets:
        try:
            buckets.bucket_volumes(replace(task, buckets=(bucket,)), settings, "", ())
        except FieldError as error:
            yield error

    yield from _find_refusals_of_accelerators(task)


def _find_refusals_of_accelerators(task: Task) -> Iterator[FieldError]:
    are_known = True
    for accelerator in dict.fromkeys(item.accelerator for item in task.candidates):
        if not accelerator or not accelerator.name:
            continue
        try:
            if accelerators.is_tpu(accelerator.name):
                tpu.find_slice(accelerator.name, accelerator.count)
            else:
                accelerators.models(accelerator.name)
        except FieldError as error:
            yield error
            are_known = False

    try:
        if are_known:
            tpu.check_nodes(task)
    except FieldError as error:
        yield error
