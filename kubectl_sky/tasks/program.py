"""Check that a pod runs what its workload's template says."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import Forbidden, ForeignPod, Refused
from kubectl_sky.observe.pod_template import difference
from kubectl_sky.plan import fair_share
from kubectl_sky.workloads import registry


def check_pod(
    session: Session, workload: Json, template: Mapping[str, Any], owners: Sequence[Json] = ()
) -> Json:
    """Dry-run the creation of a pod, and return it as the API server and admission make it."""
    metadata = {
        **template["metadata"],
        "generateName": workload["metadata"]["name"] + "-",
        "namespace": workload["metadata"]["namespace"],
        "ownerReferences": list(owners),
    }
    spec = dict(template["spec"])
    if str(spec.get("priorityClassName")).startswith(fair_share.PREFIX):
        del spec["priorityClassName"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return objects.create(session, pod, dry_run=True)


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
