"""`kubectl sky doctor` on failing tasks, on a cluster, and with the Role that it prints."""

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from tests.e2e.command import Command
from tests.e2e.support import TROUBLE_ID, record_snapshot
from tests.observe.troubles import TROUBLES, Trouble
from tests.polling import eventually

Json = dict[str, Any]
# tests/observe/test_doctor.py judges the recorded snapshot of each trouble. These stay live, each
# for a part of the cluster that complains: admission, controllers, scheduler, kubelet, runtime.
LIVE = {
    "quota-pods",
    "pod-security",
    "too-little-cpu",
    "spread",
    "claim-missing",
    "image-name",
    "program-missing",
    "out-of-memory",
    "probe",
    "pod-kept",
}
PRACTICE_ONLY = {"setup", "no-module"}  # the program itself complains
RECORD = bool(os.environ.get("RECORD_SNAPSHOTS"))  # all troubles, on a real cluster


def merge(base: Json, more: Mapping[str, Any]) -> None:
    """Merge values into an object; lists of maps are appended."""
    for key, value in more.items():
        if isinstance(base.get(key), list) and isinstance(value[0], dict):
            base[key] += value
        elif isinstance(base.get(key), dict):
            base[key] |= value
        else:
            base[key] = value


def task_of(sky: Command, trouble: Trouble) -> list[Json]:
    """Return the manifests of a task modified to fail."""
    head = dict(trouble.head)
    labels = head.pop("labels", {})
    text = yaml.safe_dump({"name": "trouble", "run": trouble.run, **head})
    done = sky("render", "-", "--id", TROUBLE_ID, "-o", "json", stdin=text)
    assert done.returncode == 0, done.stderr
    items: list[Json] = json.loads(done.stdout)["items"]
    job = items[-1]
    job["metadata"]["labels"] |= labels
    merge(job["spec"], trouble.job)
    merge(job["spec"]["template"]["spec"], trouble.pod)
    merge(job["spec"]["template"]["spec"]["containers"][0], trouble.main)
    return items


def verdict_of(sky: Command, trouble: Trouble) -> Json:
    """Run doctor until it reports the expected finding; clusters take different times."""

    def check() -> Json:
        verdict = sky.json("doctor", TROUBLE_ID)
        messages = {finding["rule"]: finding["what"] for finding in verdict["findings"]}
        assert trouble.says in messages.get(trouble.rule, ""), json.dumps(verdict, indent=1)
        assert trouble.rule in messages
        return dict(verdict)

    return eventually(check)


def param_of(trouble: Trouble) -> Any:
    marks = [pytest.mark.practice_only] if trouble.name in PRACTICE_ONLY else []
    return pytest.param(trouble, id=trouble.name, marks=marks)


@pytest.mark.parametrize(
    "trouble",
    [param_of(trouble) for trouble in TROUBLES if RECORD or trouble.name in LIVE | PRACTICE_ONLY],
)
def test_doctor_failing_task_reports_matching_finding(
    sky: Command, kubectl: Command, namespace: str, trouble: Trouble, request: pytest.FixtureRequest
) -> None:
    if trouble.objects:
        every = {"apiVersion": "v1", "kind": "List", "items": trouble.objects}
        text = json.dumps(every).replace("NAMESPACE", namespace)
        done = kubectl("apply", "-f", "-", stdin=text)
        assert done.returncode == 0, done.stderr
    task = {"apiVersion": "v1", "kind": "List", "items": task_of(sky, trouble)}
    done = kubectl("create", "-f", "-", stdin=json.dumps(task))
    assert done.returncode == 0, done.stderr

    try:
        verdict = verdict_of(sky, trouble)
        output = sky("doctor", TROUBLE_ID).stdout
        assert "next: " in output and "Traceback" not in output
        first = verdict["findings"][0]
        assert verdict["stages"][first["stage"]] == "problem"
        summary = verdict["summary"].removesuffix("…")
        assert summary and first["what"].startswith(summary)
        if RECORD and "[real" in request.node.nodeid:
            record_snapshot(sky, trouble.name)
    finally:
        if any(item["kind"] == "PersistentVolume" for item in trouble.objects):
            kubectl("delete", "pv", f"far-{namespace}", "--wait=false")


def test_doctor_cluster_reports_no_missing_rights(sky: Command) -> None:
    checkup = sky.json("doctor")
    assert checkup["missing_rights"] == []
    assert checkup["cluster_nodes"] and checkup["default_storage_class"]
    done = sky("doctor")
    assert (done.returncode, "all that the commands need" in done.stdout) == (0, True)


def test_doctor_task_that_excludes_all_cluster_nodes_names_them(
    sky: Command, kubectl: Command
) -> None:
    listed = json.loads(kubectl("get", "nodes", "-o", "json").stdout)["items"]
    nodes = [node["metadata"]["name"] for node in listed]
    flags = [word for node in nodes for word in ("--exclude-node", node)]
    done = sky("submit", "-", "--id", "off00001", "--detach", *flags, stdin="run: 'true'\n")
    assert done.returncode == 0, done.stderr
    excluded = f"do not match: the task excludes {', '.join(nodes)}"
    eventually(lambda: excluded in " ".join(sky("doctor", "off00001").stdout.split()), 60)
