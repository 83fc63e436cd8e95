"""Refuse to send data to pods that do not run the program of their task."""

from functools import partial

from kubectl_sky.actions.apply import check_pod
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, ForeignPod, Refused
from kubectl_sky.observe.pod_template import difference
from kubectl_sky.workloads import registry


def require_same_program(session: Session, workload: Json, pod: Json) -> None:
    """Raise ForeignPod unless a pod is one that the workload's controller creates.

    Admission webhooks may change pods, so a pod that differs from all templates is also compared
    with what a dry run makes of them.
    """
    backend = registry.of(workload)
    added = partial(backend.adds, workload)
    templates = backend.templates(workload)
    fields = [difference(template, pod, added) for template in templates]
    if not all(fields):
        return
    refusals = []
    for template in templates:
        try:
            admitted = check_pod(session, workload, template, _controllers(pod))
        except (Forbidden, Refused) as error:
            refusals.append(error.what)
            continue
        if not difference(admitted, pod, added):
            return
    name = pod["metadata"]["name"]
    differs = (
        f"{fields[0]} is not as in the template of"
        f" {workload['kind']}/{workload['metadata']['name']}"
    )
    if refusals:
        raise ForeignPod(
            f"pod {name} cannot be checked: {differs}, and a dry run of a pod was refused:"
            f" {refusals[0]}",
            "the dry run shows what admission webhooks change; it requires the right to create pods"
            " and quota for one more pod",
        )
    raise ForeignPod(
        f"pod {name} does not run your task: {differs}",
        "another user may have created it; to let its controller create a new one, run:"
        f" kubectl delete pod {name} -n {pod['metadata']['namespace']}",
    )


def _controllers(pod: Json) -> list[Json]:
    """Return the pod's controller: a mesh writes its name into variables."""
    fields = ("apiVersion", "kind", "name", "uid", "controller")
    owners = pod["metadata"].get("ownerReferences", ())
    return [{key: item[key] for key in fields} for item in owners if item.get("controller")]
