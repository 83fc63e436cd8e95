"""Managed jobs, which are tasks, pipelines and groups: `sky.jobs`."""

from typing import Any

from kubectl_sky.api.client import Client
from kubectl_sky.errors import UserError
from kubectl_sky.sky.clusters import job_row, newest, print_logs, send, stop_tasks
from kubectl_sky.sky.requests import Request, check, refuse
from kubectl_sky.sky.states import ManagedJobStatus as ManagedJobStatus
from kubectl_sky.sky.states import managed_status
from kubectl_sky.sky.tasks import Dag, Task, documents_of


def launch(task: Task | Dag, name: str | None = None, **options: Any) -> Request:
    """Submit a task, pipeline or group; the result is a list of its id, and a handle.

    The stages of a pipeline go on while this program runs.
    """
    check("jobs launch", options, "retry_until_up fast stream_logs detach_run")
    documents = documents_of(task)
    documents[0]["name"] = name or documents[0].get("name") or "job"
    request = send(documents, documents[0]["name"], options)
    job_id, handle = request
    return Request(([job_id], handle), request.notes)


def queue(refresh: bool = False, skip_finished: bool = False, **options: Any) -> Request:
    """Return a row per task, newest first; the stages of a pipeline have its id as `job_id`."""
    check("jobs queue", options, "all_users job_ids version")
    rows = []
    for task in Client(all_users=bool(options.get("all_users"))).list():
        row = job_row(task)
        row |= {"status": managed_status(task), "task_name": task.name, "user_name": task.user}
        row |= {"recovery_count": task.restarts, "failure_reason": task.note}
        row |= {"job_id": task.member.id, "job_name": task.member.title} if task.member else {}
        is_wanted = row.job_id in (options.get("job_ids") or [row.job_id])
        rows += [row] if is_wanted and not (skip_finished and row.status.is_terminal()) else []
    return Request((rows, len(rows), {}, len(rows)) if options.get("version") == 2 else rows)


def cancel(name: str | None = None, job_ids: list[str] | None = None, **options: Any) -> Request:
    """Stop and delete tasks, pipelines and groups; with `all`, those that have not ended."""
    check("jobs cancel", options, "all graceful")
    if options.get("all"):
        job_ids = list(dict.fromkeys(row.job_id for row in queue(skip_finished=True)))
    elif not (name or job_ids):
        raise UserError("jobs cancel: no job is named", "use name, job_ids or all=True")
    return stop_tasks([name] if name else job_ids or [])


def tail_logs(name: str | None = None, job_id: Any = None, **options: Any) -> Any:
    """Print the log of a task, by default of the newest one; the rest as `sky.tail_logs`."""
    check("jobs logs", options, "follow refresh tail output_stream")
    (task,) = job_id if isinstance(job_id, list) else [job_id or name]
    task = str(task or newest(Client().list()))
    follow = options.get("follow", True)
    return print_logs(task, follow, options.get("tail") or 0, options.get("output_stream"))


def __getattr__(name: str) -> Any:
    return refuse(f"jobs {name}".replace("_", " "))
