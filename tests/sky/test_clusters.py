"""Clusters, jobs and services of SkyPilot on a cluster in memory."""

import io
import json

import pytest

from kubectl_sky import Client, sky
from kubectl_sky.errors import Refused, SkyError, UnknownName
from kubectl_sky.serve import action
from kubectl_sky.sky.exceptions import ClusterDoesNotExist, NotSupportedError
from kubectl_sky.words import kinds
from tests.fake_cluster import FakeCluster

HELLO = sky.Task("hello", run="echo hello", envs={"A": "1"})


def launch(name: str = "dev", **options: object) -> str:
    job_id, handle = sky.get(sky.launch(HELLO, cluster_name=name, **options))
    assert (handle.cluster_name, handle.get_cluster_name()) == (name, name)
    return str(job_id)


def refuse() -> None:
    raise Refused("exceeded quota")


def two_tasks() -> sky.Dag:
    with sky.Dag() as dag:
        sky.Task("a", run="x") >> sky.Task("b", run="y")
    return dag


def end(api: FakeCluster, job_id: str, exit_code: int = 0, name: str = "dev") -> None:
    job = f"{name}-{job_id}"
    api.log(api.start(job), b"one\ntwo\n")
    api.finish(job, exit_code)


def test_launch_request_is_an_id_and_a_pair(api: FakeCluster) -> None:
    request = sky.launch(HELLO, cluster_name="dev", down=True, idle_minutes_to_autostop=10)
    job_id, handle = request
    assert f"create jobs dev-{job_id}" in api.writes
    assert request[0] == job_id and len(request) == 2 and request
    assert json.loads(json.dumps({"id": request}))["id"] == str(request)
    output = io.StringIO()
    assert sky.stream_and_get(request, output_stream=output) == (job_id, handle)
    assert output.getvalue().endswith(f"submitted {job_id}\n")
    with pytest.raises(UnknownName, match="use what the call has returned"):
        sky.get("other")


def test_launch_dry_run_and_without_run_have_no_job(api: FakeCluster) -> None:
    assert sky.get(sky.launch(HELLO, "dev", dryrun=True)) == (None, None)
    assert api.writes == []
    assert sky.get(sky.launch(sky.Task(), "dev"))[0] is None
    assert [row.status for row in sky.status()] == [sky.ClusterStatus.INIT]
    assert sky.get(sky.queue("dev")) == []
    with pytest.raises(ClusterDoesNotExist, match="no job found"):
        sky.tail_logs("dev", None, follow=False)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"clone_disk_from": "x"}, NotSupportedError, "use a volume: `volumes:` in the file"),
        ({"clster": "x"}, TypeError, "unexpected keyword argument 'clster'"),
    ],
)
def test_launch_argument_without_equal_raises(
    options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sky.launch(HELLO, **options)


def test_queue_and_status_rows_have_states(api: FakeCluster) -> None:
    failed = launch()
    end(api, failed, exit_code=1)
    (row,) = sky.get(sky.status("dev"))
    assert (row["name"], row.status) == ("dev", sky.ClusterStatus.STOPPED)
    assert sky.get(sky.status(["other"])) == []

    running = launch()
    api.start(f"dev-{running}")
    states = {row.job_id: row["status"] for row in sky.get(sky.queue("dev"))}
    assert states == {failed: sky.JobStatus.FAILED, running: sky.JobStatus.RUNNING}
    assert sky.get(sky.job_status("dev", [failed])) == {failed: sky.JobStatus.FAILED}
    (row,) = sky.get(sky.queue("dev", skip_finished=True))
    assert row.status.value == "RUNNING" and not row.status.is_terminal()
    assert sky.get(sky.status())[0].status is sky.ClusterStatus.UP


@pytest.mark.parametrize(("exit_code", "expected"), [(0, 0), (1, 100)])
def test_tail_logs_prints_and_returns_code(api: FakeCluster, exit_code: int, expected: int) -> None:
    job_id = launch()
    end(api, job_id, exit_code)
    output = io.StringIO()
    assert sky.tail_logs("dev", job_id, follow=False, output_stream=output) == expected
    assert output.getvalue() == "one\ntwo\n"
    lines = sky.tail_logs("dev", None, follow=False, tail=1, preload_content=False)
    assert [*lines] == ["two\n"]


def test_exec_runs_a_task_with_setup_of_the_cluster(api: FakeCluster) -> None:
    task = sky.Task(setup="echo a", run="x", resources=sky.Resources(cpus=2))
    sky.launch(task, "dev")
    job_id, _ = sky.exec(sky.Task("serve", run="y"), cluster_name="dev")
    text = Client().read_task(job_id).yaml
    assert "setup: echo a" in text and "cpus: 2" in text and 'run: "y"' in text
    assert {row.job_name for row in sky.queue("dev")} == {"serve", "dev"}
    assert [row.name for row in sky.status()] == ["dev"]
    with pytest.raises(ClusterDoesNotExist, match='cluster "other" not found'):
        sky.exec(task, "other")


def test_cancel_stops_the_newest_job_and_down_all(api: FakeCluster) -> None:
    ended = launch()
    first = launch()
    second = launch()
    end(api, ended)
    sky.cancel("dev")
    assert {row.job_id for row in sky.queue("dev")} < {ended, first, second}
    sky.cancel("dev", all=True)
    assert [row.job_id for row in sky.queue("dev")] == [ended]
    assert sky.get(sky.down("dev")) is None
    with pytest.raises(ClusterDoesNotExist):
        sky.down("dev")


def test_jobs_rows_of_a_pipeline_have_its_id(api: FakeCluster) -> None:
    ids, _ = sky.get(sky.jobs.launch(two_tasks(), name="both"))
    rows = sky.get(sky.jobs.queue(refresh=False, job_ids=ids))
    assert {(row.job_name, row.task_name) for row in rows} == {("both", "a"), ("both", "b")}
    assert {row.job_id for row in rows} == {*ids}
    assert rows[0].status is sky.ManagedJobStatus.PENDING
    assert sky.get(sky.jobs.queue(refresh=False, version=2))[1] == 2
    sky.jobs.cancel(all=True)
    assert sky.get(sky.jobs.queue(refresh=False)) == []


def test_launch_refused_by_quota_is_resources_unavailable(api: FakeCluster) -> None:
    api.before("create jobs", refuse)
    with pytest.raises(sky.exceptions.ResourcesUnavailableError):
        launch()
    assert not issubclass(sky.exceptions.ClusterNotUpError, sky.exceptions.NotSupportedError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sky.exec(two_tasks(), "dev"), "only one task"),
        (lambda: sky.stop("dev"), "there are no stopped clusters"),
        (lambda: sky.start("dev"), "a stopped task is deleted"),
        (lambda: sky.cost_report(), "use `kubectl sky usage`"),
        (lambda: sky.jobs.pool_apply(HELLO), "there are no pools of workers"),
    ],
)
def test_verb_without_equal_has_the_answer_of_the_command_line(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises(NotSupportedError, match=message):
        call()


def test_name_that_skypilot_does_not_have_is_no_attribute() -> None:
    assert not hasattr(sky, "lunch") and not hasattr(sky.jobs, "lunch")
    assert issubclass(sky.exceptions.NotSupportedError, SkyError)


SERVICE = sky.Task(run="serve", resources=sky.Resources(ports=8080)).set_service({"replicas": 2})


def test_serve_rows_have_endpoint_and_down_deletes(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.kinds |= {kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.HPA, kinds.INGRESS}
    monkeypatch.setattr(
        action,
        "follow",
        lambda session, replicas, options, ui: action.status(
            session, action.find(session, None, replicas.name)
        ),
    )
    assert sky.get(sky.serve.up(SERVICE, service_name="web")) == ("web", "web.default.svc:8080")
    (row,) = sky.get(sky.serve.status("web"))
    assert (row["endpoint"], row.status.value) == ("web.default.svc:8080", "REPLICA_INIT")
    assert sky.get(sky.serve.status("other")) == []
    sky.serve.update(SERVICE.update_envs({"A": "b"}), "web", mode="rolling")
    sky.serve.down("web")
    assert sky.get(sky.serve.status()) == []
