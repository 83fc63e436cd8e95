"""Clusters: tasks that share a name. Launch them, and see, follow and stop their tasks."""

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

import yaml

from kubectl_sky.api.client import Client
from kubectl_sky.api.task import Task as File
from kubectl_sky.cluster import parallel
from kubectl_sky.errors import TaskFailed
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.sky import states
from kubectl_sky.sky.exceptions import ClusterDoesNotExist, JobExitCode
from kubectl_sky.sky.requests import Request, Row, check
from kubectl_sky.sky.tasks import Dag, Resources, Task, document_of, documents_of
from kubectl_sky.words import names

__all__ = ["autostop", "cancel", "down", "endpoints", "exec", "job_status", "launch", "queue"]
__all__ += ["status", "tail_logs"]

LABEL = "skypilot-cluster"  # the cluster of a task that has a name of its own
EXEC = "dryrun down backend stream_logs detach_setup detach_run"
LAUNCH = f"{EXEC} retry_until_up idle_minutes_to_autostop wait_for optimize_target no_setup fast"
_KEPT = ("setup", "workdir", "file_mounts", "volumes", "config", "resources")


def launch(task: Task | Dag, cluster_name: str | None = None, **options: Any) -> Request:
    """Submit a task under the name of a cluster; the result is its id and a handle.

    The id is None for a dry run and for a task without `run`. With `detach_run=False` or
    `stream_logs=True`, print its logs until it has ended, as SkyPilot before 0.8. Raises the errors
    of `Client.submit`, and NotSupportedError.
    """
    check("launch", options, LAUNCH)
    documents = documents_of(task)
    name = cluster_name or documents[0].get("name") or f"sky-{names.new_id()}"
    documents[0]["name"] = name
    if options.get("no_setup"):
        documents[0].pop("setup", None)
    return send(documents, name, options)


def exec(task: Task | Dag, cluster_name: str, **options: Any) -> Request:  # noqa: A001
    """Submit a task with the setup, files and resources of the last task of a cluster.

    It has pods of its own. The result is that of `launch`. Raises ClusterDoesNotExist.
    """
    check("exec", options, EXEC)
    config = document_of(task)
    *_, kept = yaml.safe_load_all(Client().read_task(find(cluster_name)[0].id).yaml)
    resources = {**(kept.get("resources") or {}), **config.get("resources", {})}
    labels = {**resources.get("labels", {}), LABEL: cluster_name}
    config = {"name": cluster_name, **{key: kept[key] for key in _KEPT if key in kept}, **config}
    config |= {"setup": kept.get("setup"), "resources": {**resources, "labels": labels}}
    config["envs"] = {**(kept.get("envs") or {}), **config.get("envs", {})}
    return send([config], cluster_name, options)


def send(documents: list[dict[str, Any]], cluster_name: str, options: dict[str, Any]) -> Request:
    """Submit a task file; the result is the id of its job, if it has one, and a handle."""
    file = File.from_yaml(yaml.safe_dump_all(documents, sort_keys=False, explicit_start=True))
    if options.get("dryrun"):
        return Request((None, None), (Client().submit(file, dry_run="client").yaml,))
    submission = Client().submit(file)
    if len(documents) > 1:  # while this program runs, it resumes each stage
        parallel.run_future(submission.wait, name="stages")
    if options.get("stream_logs") or options.get("detach_run") is False:
        print_logs(submission.id)

    task = documents[-1]
    resources = Resources(**task.get("resources", {}))
    handle = make_handle(cluster_name, task.get("num_nodes", 1), resources)
    notes = (*submission.notes, *map(str, submission.warnings), f"submitted {submission.id}")
    job_id = submission.id if task.get("run") else None
    return Request((job_id, handle), notes)


def make_handle(cluster_name: str, nodes: int, resources: Resources) -> Row:
    handle = Row(cluster_name=cluster_name, launched_nodes=nodes, launched_resources=resources)
    return Row(handle, head_ip=None, get_cluster_name=lambda: cluster_name)


def cluster_of(task: TaskStatus) -> str:
    return task.labels.get(LABEL, task.name)


def find(cluster_name: str, all_users: bool = False) -> list[TaskStatus]:
    """Return the tasks of a cluster, newest first. Raises ClusterDoesNotExist."""
    tasks = Client(all_users=all_users).list()
    if matches := [task for task in tasks if cluster_of(task) == cluster_name]:
        return matches
    raise ClusterDoesNotExist(f'cluster "{cluster_name}" not found: no task has its name')


def find_jobs(cluster_name: str, all_users: bool = False) -> list[TaskStatus]:
    return [task for task in find(cluster_name, all_users) if not task.interactive]


def newest(jobs: Sequence[TaskStatus]) -> str:
    if jobs:
        return jobs[0].id
    raise ClusterDoesNotExist("no job found", "launch a task that has `run`")


def status(cluster_names: Any = None, refresh: Any = None, all_users: bool = False) -> Request:
    """Return a row per cluster, newest first: STOPPED if all its tasks have ended."""
    clusters = dict[str, list[TaskStatus]]()
    for task in Client(all_users=all_users).list():
        clusters.setdefault(cluster_of(task), []).append(task)
    wanted = [cluster_names] if isinstance(cluster_names, str) else cluster_names or clusters
    return Request([_row(name, clusters[name]) for name in clusters if name in wanted])


def _row(name: str, tasks: list[TaskStatus]) -> Row:
    last = tasks[0]
    words = {task.state.name for task in tasks}
    started = "INIT" if "PENDING" in words else "STOPPED"
    return Row(
        name=name,
        status=states.ClusterStatus["UP" if "RUNNING" in words else started],
        launched_at=int(seconds(last.created_at) or 0),
        handle=make_handle(name, last.num_nodes, Resources()),
        user_name=last.user,
        autostop=-1,
        to_down=True,
        metadata={},
    )


def seconds(time: str) -> float | None:
    return datetime.fromisoformat(time).timestamp() if time else None


def job_row(task: TaskStatus) -> Row:
    start = seconds(min((node.started_at for node in task.nodes if node.started_at), default=""))
    end = seconds(max(node.ended_at for node in task.nodes)) if task.finished else None
    now = datetime.now(UTC).timestamp()
    duration = (end or now) - start if start else 0.0
    return Row(
        job_id=task.id,
        job_name=task.name,
        username=task.user,
        status=states.job_status(task),
        submitted_at=seconds(task.created_at),
        start_at=start,
        end_at=end,
        job_duration=duration,
    )


def queue(cluster_name: str, skip_finished: bool = False, all_users: bool = False) -> Request:
    """Return a row per job of a cluster, newest first. Raises ClusterDoesNotExist."""
    rows = map(job_row, find_jobs(cluster_name, all_users))
    return Request([row for row in rows if not (skip_finished and row.status.is_terminal())])


def job_status(cluster_name: str, job_ids: list[str] | None = None) -> Request:
    """Return states by job id, by default that of the newest job."""
    jobs = {task.id: states.job_status(task) for task in find_jobs(cluster_name)}
    return Request({job_id: jobs.get(job_id) for job_id in job_ids or list(jobs)[:1]})


def cancel(cluster_name: str, **options: Any) -> Request:
    """Stop and delete jobs that have not ended: those of `job_ids`, `all`, or the newest one."""
    check("cancel", options, "all all_users job_ids")
    jobs = find_jobs(cluster_name, bool(options.get("all_users")))
    unfinished = [task.id for task in jobs if not task.state.ended]
    is_all = options.get("all") or options.get("all_users")
    return stop_tasks(unfinished if is_all else options.get("job_ids") or unfinished[:1])


def down(cluster_name: str, purge: bool = False, **options: Any) -> Request:
    """Stop and delete all tasks of a cluster. Raises ClusterDoesNotExist."""
    check("down", options, "graceful")
    return stop_tasks([task.id for task in find(cluster_name)])


def stop_tasks(ids: list[str]) -> Request:
    for task_id in ids:
        Client().stop(str(task_id))
    return Request(None)


def autostop(cluster_name: str, idle_minutes: int, **options: Any) -> Request:
    """Do nothing: the pods of a task end with it."""
    check("autostop", options, "wait_for down")
    return Request(None)


def endpoints(cluster: str, port: int | str | None = None) -> Request:
    """Return HOST:PORT by port, outside the cluster if there is such an address."""
    ports = Client().ports(find(cluster)[0].id)
    addresses = {item.port: (*item.outside, item.address)[0] for item in ports}
    return Request({key: addresses[key] for key in addresses if port in (None, key, str(key))})


def tail_logs(
    cluster_name: str, job_id: str | None = None, follow: bool = True, tail: int = 0, **options: Any
) -> Any:
    """Print the log of a job, by default of the newest one, and return its JobExitCode.

    `tail` is the number of lines of each node, 0 for all; `output_stream` is for stdout. With
    `preload_content=False`, return an iterator of lines instead.
    """
    check("logs", options, "output_stream preload_content")
    job_id = str(job_id or newest(find_jobs(cluster_name)))
    if options.get("preload_content", True):
        return print_logs(job_id, follow, tail, options.get("output_stream"))
    return lines_of(job_id, follow, tail)


def lines_of(job_id: str, follow: bool, tail: int) -> Iterator[str]:
    """Yield the lines of a log with their ends; those of ranks after 0 begin with their node."""
    lines = Client().logs(job_id, follow=follow, tail=tail or None)
    try:
        for line in lines:
            yield f"({line.node}) {line.text}\n" if line.rank else f"{line.text}\n"
    finally:
        lines.close()


def print_logs(job_id: str, follow: bool = True, tail: int = 0, to: TextIO | None = None) -> Any:
    stream = to or sys.stdout
    try:
        stream.writelines(lines_of(job_id, follow, tail))
    except TaskFailed as error:
        stream.write(f"{error}\n")
        return JobExitCode.FAILED
    state = Client().status(job_id).state
    ended = JobExitCode.SUCCEEDED if state.name == "COMPLETED" else JobExitCode.FAILED
    return ended if state.ended else JobExitCode.NOT_FINISHED
