"""A container beside `main` keeps a pod running; a deadline ends it."""

from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.words import kinds
from tests.contract.makers import make_job, make_pod_spec
from tests.polling import eventually

BESIDE = {
    "name": "proxy",
    "image": "busybox:1.36",
    "imagePullPolicy": "IfNotPresent",
    "command": ["sleep", "600"],
}


def the_pod(session: Session, namespace: str) -> Json:
    (pod,) = objects.list_all(session, kinds.POD, namespace, label_selector="job-name=kept")
    return pod


def ends(pod: Json) -> dict[str, Any]:
    """Return the exit codes of the containers that have ended, by name."""
    states = {item["name"]: item["state"] for item in pod["status"].get("containerStatuses", ())}
    return {
        name: end["terminated"]["exitCode"] for name, end in states.items() if "terminated" in end
    }


def test_pod_with_failed_main_runs_until_its_deadline(session: Session, namespace: str) -> None:
    spec = make_pod_spec("exit 3")
    spec["containers"].append(BESIDE)
    objects.create(session, make_job("kept", namespace, backoffLimit=4, template={"spec": spec}))

    def has_ended_main() -> Json | None:
        pods = objects.list_all(session, kinds.POD, namespace, label_selector="job-name=kept")
        # The phase stays Pending until the container beside it has started, too.
        ended = (pod for pod in pods if ends(pod) and pod["status"]["phase"] != "Pending")
        return next(ended, None)

    pod = eventually(has_ended_main)
    assert pod
    assert (pod["status"]["phase"], ends(pod)) == ("Running", {"main": 3})
    no_retries = {"spec": {"backoffLimit": 0}}
    objects.patch(session, kinds.JOB, "kept", namespace, no_retries)
    body = {"spec": {"activeDeadlineSeconds": 1}}
    objects.patch(session, kinds.POD, pod["metadata"]["name"], namespace, body)

    def failed() -> bool:
        job = objects.get(session, kinds.JOB, "kept", namespace)
        conditions = job["status"].get("conditions", ())
        return any((item["type"], item["status"]) == ("Failed", "True") for item in conditions)

    eventually(failed)
    after = the_pod(session, namespace)
    status = after["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert ends(after) == {"main": 3, "proxy": 137}
