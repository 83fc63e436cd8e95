"""Managed jobs, which are tasks: `sky.jobs`."""

from typing import Any, TextIO

from kubectl_sky.api.client import Client
from kubectl_sky.sky import clusters
from kubectl_sky.sky.requests import Request, check, refuse
from kubectl_sky.sky.states import ManagedJobStatus as ManagedJobStatus
from kubectl_sky.sky.tasks import Dag, Task


def launch(task: Task | Dag, name: str | None = None, **options: Any) -> Request:
    """Submit a task, pipeline or group; the result is a list of its id, and a handle.

    The stages of a pipeline go on while this program runs.
    """
    check("jobs launch", options, "retry_until_up stream_logs detach_run")
    documents = clusters.documents_of(task)
    documents[0]["name"] = name or documents[0].get("name") or "job"
    job_id, handle = clusters.send(documents, documents[0]["name"], options)
    return Request(([job_id], handle))


def queue(
    refresh: bool = False,
    skip_finished: bool = False,
    all_users: bool = False,
    job_ids: list[str] | None = None,
    version: int = 1,
) -> Request:
    """Return a row per task, newest first; of a pipeline one per stage, with its id as `job_id`."""
    rows = []
    for task in Client(all_users=all_users).list():
        row = clusters.job_row(task)
        if task.member:
            row |= {"job_id": task.member.id, "job_name": task.member.title}
        if not (skip_finished and row.status.is_terminal()) and row.job_id in (
            job_ids or [row.job_id]
        ):
            rows.append(row)
    return Request(rows if version == 1 else (rows, len(rows), {}, len(rows)))


def cancel(
    name: str | None = None,
    job_ids: list[str] | None = None,
    all: bool = False,  # noqa: A002
    **ignored: Any,
) -> Request:
    """Stop and delete tasks, pipelines and groups."""
    unfinished = list(dict.fromkeys(row.job_id for row in queue(skip_finished=True)))
    return clusters.stop(unfinished if all else [name] if name else job_ids or [])


def tail_logs(
    name: str | None = None,
    job_id: Any = None,
    follow: bool = True,
    tail: int | None = None,
    output_stream: TextIO | None = None,
    **ignored: Any,
) -> Any:
    """Print the log of a task, by default of the newest one; the rest as `sky.tail_logs`."""
    (task,) = job_id if isinstance(job_id, list) else [job_id or name]
    task = task or Client().list()[0].id
    return clusters.print_logs(task, follow, tail or 0, output_stream)


def __getattr__(name: str) -> Any:
    return refuse(f"jobs {name}".replace("_", " "))
