"""A container beside `main` keeps a pod running; a deadline ends it."""

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.words import kinds
from kubectl_sky.words.pod_objects import Pod
from tests.contract.makers import make_job, make_pod_spec
from tests.polling import eventually

BESIDE = {
    "name": "proxy",
    "image": "busybox:1.36",
    "imagePullPolicy": "IfNotPresent",
    "command": ["sleep", "600"],
}


def the_pod(session: Session, namespace: str) -> Pod:
    (pod,) = objects.list_all(session, kinds.POD, namespace, label_selector="job-name=kept")
    return pod


def ends(pod: Pod) -> dict[str, int | None]:
    """Return the exit codes of the containers that have ended, by name."""
    return {
        item.name: item.state.exit_code
        for item in pod.status.container_statuses
        if item.state.terminated
    }


def test_pod_with_failed_main_runs_until_its_deadline(session: Session, namespace: str) -> None:
    spec = make_pod_spec("exit 3")
    spec["containers"].append(BESIDE)
    objects.create(session, make_job("kept", namespace, backoffLimit=4, template={"spec": spec}))

    def has_ended_main() -> Pod | None:
        pods = objects.list_all(session, kinds.POD, namespace, label_selector="job-name=kept")
        # The phase stays Pending until the container beside it has started, too.
        ended = (pod for pod in pods if ends(pod) and pod.status.phase != "Pending")
        return next(ended, None)

    pod = eventually(has_ended_main)
    assert pod
    assert (pod.status.phase, ends(pod)) == ("Running", {"main": 3})
    no_retries = {"spec": {"backoffLimit": 0}}
    objects.patch(session, kinds.JOB, "kept", namespace, no_retries)
    body = {"spec": {"activeDeadlineSeconds": 1}}
    objects.patch(session, kinds.POD, pod.metadata.name, namespace, body)

    def failed() -> bool:
        job = objects.get_manifest(session, kinds.JOB, "kept", namespace)
        conditions = job["status"].get("conditions", ())
        return any((item["type"], item["status"]) == ("Failed", "True") for item in conditions)

    eventually(failed)
    after = the_pod(session, namespace)
    assert (after.status.phase, after.status.reason) == ("Failed", "DeadlineExceeded")
    assert ends(after) == {"main": 3, "proxy": 137}
