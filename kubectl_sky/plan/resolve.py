"""Build the plan from task, facts and settings, without any I/O."""

from kubectl_sky import assets, names
from kubectl_sky.facts import Facts
from kubectl_sky.plan import (
    bundle,
    defaults,
    environment,
    fabric,
    hidden,
    interactive,
    ports,
    priority,
    registry,
    sizes,
    spot,
    storage,
)
from kubectl_sky.plan.bundle import Cargo
from kubectl_sky.plan.custom import Custom, custom
from kubectl_sky.plan.identity import identity, numbers
from kubectl_sky.plan.placement import Placement
from kubectl_sky.plan.plan import Plan, Toleration
from kubectl_sky.plan.storage import Named
from kubectl_sky.settings import Settings
from kubectl_sky.spec.document import FieldError
from kubectl_sky.spec.task import Resources, Task

MAX_SCRIPTS = 900_000  # bytes; a ConfigMap is limited to 1 MiB, including metadata


def resolve(
    task: Task, task_id: str, placement: Placement, facts: Facts, settings: Settings
) -> Plan:
    """Build the plan of a task; raise FieldError if anything it requires is missing."""
    task, resources = registry.hidden(interactive.staying(task)), placement.resources
    requests = sizes.requests(placement, settings)
    customized = custom(task, resources, facts, settings)
    task_identity = identity(task, task_id, facts, resources, customized.queue)
    login, object_name = registry.login(task, task_identity.object_name), task_identity.object_name
    image = registry.image(resources.image, login) or defaults.image(placement, settings)
    stored = storage.stored(task, facts, settings, Named(object_name, task_identity.labels, image))
    cargo = bundle.cargo(task.files, object_name, facts, bool(stored.shelf))
    network = fabric.fabric(placement, facts)
    env = environment.variables(task, object_name, placement, facts, stored.links, settings)
    return Plan(
        id=task_id,
        name=object_name,
        namespace=facts.namespace,
        labels=task_identity.labels,
        annotations={**task_identity.annotations, **cargo.annotations},
        selector=task_identity.selector,
        nodes=task_identity.nodes(task.num_nodes),
        image=image,
        login=login,
        env={**network.env, **env},
        secrets=hidden.values(task, facts),
        secret_variables=hidden.variables(task, facts, object_name),
        requests=requests,
        limits={**sizes.limits(placement, requests, task.kubernetes.limits), **network.resources},
        storage=stored,
        terms=placement.terms,
        preferred=placement.preferred,
        tolerations=_tolerations(placement),
        priority_class=_class(customized, resources, settings),
        ttl_seconds=resources.linger,
        restarts=resources.recovery.restarts if resources.recovery else 0,
        recovers=resources.recovery is not None,
        exit_codes=resources.recovery.exit_codes if resources.recovery else (),
        shared_memory=placement.device is not None,
        backend=task.backend or names.DEFAULT_BACKEND,
        array=task.array,
        scripts=_scripts(task, cargo),
        pod_annotations={**task.kubernetes.annotations, **numbers(task), **stored.annotations},
        custom=customized,
        confined=customized.non_root,
        cargo=cargo,
        service=object_name if task.num_nodes > 1 else None,
        ports=ports.ports(task, resources, object_name, settings),
        fabric=network,
    )


def _class(own: Custom, resources: Resources, settings: Settings) -> str | None:
    """Return the pods' priority class; None if the Kueue label already sets one."""
    queued = names.QUEUE_CLASS in own.queueing
    return None if queued else priority.class_of(resources, settings)


def _sudo(task: Task) -> dict[str, str]:
    """Return the script that gives root a sudo, if the task's own scripts mention it."""
    is_used = "sudo" in f"{task.setup} {task.run}"
    return {"sudo.sh": assets.read("runtime", "sudo.sh")} if is_used else {}


def _tolerations(placement: Placement) -> tuple[Toleration, ...]:
    """Return tolerations for the usual taints of GPU and spot nodes.

    GPU nodes are often tainted with the resource name, spot nodes with their label.
    """
    devices = (Toleration(placement.device.resource),) if placement.device else ()
    rules = spot.RULES if placement.resources.spot else ()
    return devices + tuple(Toleration(rule.key, "Equal", rule.values[0]) for rule in rules)


def _scripts(task: Task, cargo: Cargo) -> dict[str, str]:
    """Return the files of this task that a node starts from. Raises FieldError if too large."""
    scripts = dict(cargo.lists) if cargo.places else {}
    if task.repository:
        repository = task.repository
        lines = (
            repository.url,
            repository.ref,
            repository.login.username,
            repository.login.password,
        )
        scripts["repository.txt"] = "".join(f"{line}\n" for line in lines)
    if task.setup:
        scripts["setup.sh"] = task.setup
    if task.run:
        scripts["run.sh"] = task.run
    scripts |= _sudo(task)
    size = sum(len(text.encode()) for text in scripts.values())
    if size > MAX_SCRIPTS:
        larger = max(("run", "setup"), key=lambda field: len(getattr(task, field) or ""))
        raise FieldError(
            (larger,),
            f"the scripts have {size:,} bytes; a ConfigMap can hold {MAX_SCRIPTS:,}",
            "move large text to a file in workdir, a volume or the image",
        )
    return scripts
