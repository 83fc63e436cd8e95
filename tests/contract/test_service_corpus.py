"""Public service files are served, or refused with SkyPilot's rule or the reason."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_sky.errors import InvalidFiles
from kubectl_sky.spec.service import Flags
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.submitting.taskfile import Source, prepare
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import owners
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import decide
from tests.contract.corpus import make_files, open_values
from tests.spec.test_corpus import CORPUS, rows

pytestmark = pytest.mark.outside
# Files that are refused, with a part of the reason; SkyPilot refuses this one, too.
REFUSED = {
    "upstream__llm__deepseek-r1__deepseek-r1-671B.yaml": "which needs target_qps_per_replica",
}
WARNED = {
    "upstream__examples__serve__load_balancing_policies_example.yaml": "spreads connections",
    "upstream__examples__serve__min_replicas_zero.yaml": "no request can start a replica",
    "upstream__examples__serve__spot_policy__multi_accelerators.yaml": "same nodes to choose from",
}


def services() -> list[str]:
    names = [row["file"] for row in rows()]
    return [name for name in names if "\nservice:" in f"\n{(CORPUS / name).read_text()}"]


class Recorder(UI):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def problems(self, problems: Any) -> None:
        self.messages += [problem.message for problem in problems]


@pytest.mark.parametrize("name", services())
def test_public_service_is_served_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    tasks = [task for task in yaml.safe_load_all((CORPUS / name).read_text()) if task]
    for task in tasks:
        make_files(task)
    overrides = Overrides(
        name="web", env=open_values(tasks, "envs"), secret=open_values(tasks, "secrets")
    )
    environ = {"KUBECTL_SKY_CONFIG_HOME": str(tmp_path)}
    policy = tasks[0]["service"].get("replica_policy") or {}
    scaled = policy.get("max_replicas", 0) > max(policy.get("min_replicas", 1), 1)
    ui = Recorder()
    source = Source(str(CORPUS / name), overrides, environ, io.BytesIO(), serve=Flags())
    if name in REFUSED:
        with pytest.raises(InvalidFiles, match=REFUSED[name]):
            prepare(source, ui)
        return
    task_file = prepare(source, ui)
    facts = Facts(owners.name_owner("tester"), "default")
    decision = decide(task_file.entries, facts, task_file.settings)
    rendered = task_file.render(decision.plans)
    kinds = [manifest.object["kind"] for manifest in rendered.own]
    assert ("HorizontalPodAutoscaler" in kinds) is scaled
    assert {"Deployment", "Service", "ConfigMap"} <= set(kinds)

    (container,) = rendered.workload[0].object["spec"]["template"]["spec"]["containers"]
    probe = tasks[0]["service"].get("readiness_probe")
    by_script = isinstance(probe, dict) and bool(probe.keys() & {"post_data", "headers"})
    assert ("exec" in container["readinessProbe"]) is by_script
    if name in WARNED:
        assert WARNED[name] in " ".join(ui.messages)
