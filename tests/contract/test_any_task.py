"""Accepted tasks render to objects that the server accepts without unknown fields."""

import io
from concurrent.futures import ThreadPoolExecutor

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.render import render
from kubectl_sky.submitting.taskfile import Source, prepare
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import owners
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import decide
from tests.contract.tasks import tasks

BACKENDS = ("jobs", "indexed")  # jobset needs its controller
EXAMPLES = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),  # all examples share a namespace, which stays empty
)


def rendered(task: Json, backend: str, namespace: str) -> list[Json]:
    text = yaml.safe_dump(task, sort_keys=False).encode()
    overrides = Overrides(task_id="fuzz0001", backend=backend)
    task_file = prepare(Source("-", overrides, {}, io.BytesIO(text)), UI())
    facts = Facts(owners.name_owner("tester"), namespace)
    decision = decide(task_file.entries, facts, task_file.settings)
    return [manifest.object for manifest in render(task_file, decision, show_secrets=True).all]


@EXAMPLES
@given(task=tasks, backend=st.sampled_from(BACKENDS))
def test_render_accepted_task_has_job_and_config_map(task: Json, backend: str) -> None:
    kinds = [item["kind"] for item in rendered(task, backend, "default")]
    assert "Job" in kinds
    assert "ConfigMap" in kinds


@EXAMPLES
@given(task=tasks, backend=st.sampled_from(BACKENDS))
def test_render_accepted_task_is_accepted_by_server(
    session: Session, namespace: str, task: Json, backend: str
) -> None:
    def refusal(manifest: Json) -> str:
        try:
            objects.apply(session, manifest, dry_run=True)
        except ClusterError as error:
            return f"{manifest['kind']}: {error}"
        return ""

    with ThreadPoolExecutor(4) as pool:
        refused = list(filter(None, pool.map(refusal, rendered(task, backend, namespace))))
    assert refused == []
