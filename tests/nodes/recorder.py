"""Records what a cluster shows of a task, for tests without one: RECORD_SNAPSHOTS=1 does."""

import json
import subprocess
from collections.abc import Iterator

from msgspec.structs import replace

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.tasks import doctor, find
from kubectl_sky.words import kinds, names
from kubectl_sky.words.pod_objects import Pod
from tests.e2e.command import Command
from tests.e2e.support import TROUBLE_ID
from tests.observe.test_doctor import SNAPSHOTS, dump
from tests.reading import read_pods

_USUAL = ("Created", "Pulled", "Scheduled", "Started", "SuccessfulCreate")  # reasons of events


class Recorder:
    """Keeps each pod as it was last, also those that are deleted when they have failed."""

    def __init__(self, sky: Command, kubectl: Command) -> None:
        self._kubectl = kubectl
        self._seen = kubectl.folder / "pods.json"
        watch = [*kubectl.program, "get", "pods", "--watch", "-o", "json"]
        with self._seen.open("w") as file:
            process = subprocess.Popen(watch, env=kubectl.environment, stdout=file, text=True)
        sky.started.append(process)  # ends with the test

    def save(self, name: str, task_id: str, rank: int) -> None:
        """Write the snapshot of a task, with the pod of a rank even if it is gone."""
        session = Session.connect(Connection(kubeconfig=self._kubectl.environment["KUBECONFIG"]))
        task = find.get_task(session, find.Scope(session.namespace, None), task_id)
        seen, _ = doctor.snapshot(session, task)
        pods = {pod.metadata.uid: pod for pod in seen.of(kinds.POD)}
        own = [pod for pod in self._pods() if _is_of(pod, task_id, rank)]
        for pod in own[-1:]:
            pods.setdefault(pod.metadata.uid, pod)

        events = [
            event
            for event in seen.of(kinds.EVENT)
            if task_id in event.involved_object.name and event.reason not in _USUAL
        ]
        new = {kinds.POD.kind: tuple(pods.values()), kinds.EVENT.kind: tuple(events)}
        text = dump(replace(seen, objects={**seen.objects, **new}, logs={}), session.namespace)
        (SNAPSHOTS / f"fault-{name}.json").write_text(text.replace(task_id, TROUBLE_ID))
        session.close()

    def _pods(self) -> Iterator[Pod]:
        text = self._seen.read_text()
        decoder = json.JSONDecoder()
        latest = {}
        while text.strip():
            item, end = decoder.raw_decode(text := text.lstrip())
            text = text[end:]
            latest[item["metadata"]["uid"]] = item
        yield from read_pods(latest.values())


def _is_of(pod: Pod, task_id: str, rank: int) -> bool:
    labels = pod.metadata.labels
    index = labels.get("batch.kubernetes.io/job-completion-index") or labels.get(names.NODE_IDX)
    return labels.get(names.TASK_ID) == task_id and index == str(rank)
