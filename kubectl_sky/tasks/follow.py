"""Follow a task, pipeline or group until it finishes, and report how it ended."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Interrupted, SkyError, TaskFailed
from kubectl_sky.observe import failure
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.rerun import advise_rerun
from kubectl_sky.observe.signals import SignalSource
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.plan.plan import Plan
from kubectl_sky.tasks import evidence, goodput, logs, pipeline
from kubectl_sky.tasks.find import Target, tasks_of
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.pipeline import PipelineClient, follow_stages
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import Wait
from kubectl_sky.words import names, settings
from kubectl_sky.words.private import Folder
from kubectl_sky.workloads import registry

if TYPE_CHECKING:
    from kubectl_sky.workloads.decide import Decision


def follow(session: Session, target: Target, request: LogRequest, ui: UI) -> None:
    """Print the logs until the task, or all tasks of a pipeline or group, have finished.

    If the request leads, each task of a pipeline is resumed when the one before it has succeeded.
    If one fails, the remaining tasks are cancelled. Auxiliary tasks of a group are stopped when the
    others finish. An interactive task is followed until its nodes are ready if the request says so.
    Ctrl-C does not change the tasks. Raises TaskFailed, Interrupted, ClusterError.
    """
    try:
        if request.leads:
            pipeline.start_after(session, target, Wait(stop=request.stop, leads=True), ui.note)
        if isinstance(target, TaskStatus):
            finished: Target = logs.follow(session, target, request, ui)
        elif target.first_member.parallel:
            pipeline.check_complete(target)
            ui.notes(map(target.heading, target.tasks))
            stop_auxiliary = pipeline.AuxiliaryStopper(
                session, target, ui.note, leads=request.leads
            )
            statuses = logs.follow_all(session, target.tasks, request, ui, stop_auxiliary)
            ended = tuple(task for task in statuses if task.state.ended)  # the others were stopped
            finished = replace(target, tasks=ended)
        else:
            heading = target.heading

            def finish(task: TaskStatus) -> TaskStatus:
                ui.note(heading(task))
                return logs.follow(session, task, request, ui)

            client = PipelineClient(finish, ui.note, request.leads, request.stop)
            finished = follow_stages(session, target, client)
    except KeyboardInterrupt:
        raise _note_interrupted(target) from None

    try:
        check_outcome(session, finished, _show(request, ui))
        _note_end(session, finished, ui)
    finally:
        if request.leads:
            goodput.record_ended(session, tasks_of(finished))
    if request.until_ready and isinstance(target, TaskStatus) and target.interactive:
        ui.note(_access_hint(target.id))


def _note_end(session: Session, target: Target, ui: UI) -> None:
    """Note how long a completed task took, and where its results are, at a terminal."""
    if ui.live and isinstance(target, TaskStatus) and target.state is State.COMPLETED:
        from kubectl_sky.tasks import timeline  # noqa: PLC0415 -- for people only

        with suppress(SkyError):
            ui.notes(task.summary for task in timeline.read(session, [target]).tasks)
        if target.results:
            ui.note(f"what it has written to {target.results.title}: {target.results_step}")


def follow_tasks(
    session: Session, tasks: Sequence[TaskStatus], request: LogRequest, ui: UI
) -> None:
    """Print the logs of several tasks until all have finished, with their names as prefixes.

    Interactive tasks are not followed. Raises TaskFailed, Interrupted, ClusterError.
    """
    for task in tasks:
        if task.interactive:
            ui.note(_access_hint(task.id))

    followed = [task for task in tasks if not task.interactive]
    try:
        for task in followed if request.leads else ():
            pipeline.start_after(session, task, Wait(stop=request.stop, leads=True), ui.note)
        finished = logs.follow_all(session, followed, request, ui, lambda statuses: ())
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; the {len(tasks)} tasks go on",
            "`kubectl sky list` shows them, `kubectl sky wait` waits for them",
        ) from None

    try:
        _check_outcomes(session, finished)
    finally:
        if request.leads:
            goodput.record_ended(session, finished)


def _check_outcomes(session: Session, tasks: Sequence[TaskStatus]) -> None:
    """Raise TaskFailed with a line for each of the tasks that has failed."""
    failures = []
    for task in tasks:
        try:
            check_outcome(session, task)
        except TaskFailed as error:
            failures.append(str(error))
    if failures:
        raise TaskFailed("\nerror: ".join(failures))


def _access_hint(task_id: str) -> str:
    return (
        f'to get in, run "kubectl sky exec {task_id} -it -- bash";'
        f' to stop it, run "kubectl sky stop {task_id}"'
    )


def show(session: Session, target: Target, request: LogRequest, ui: UI) -> None:
    """Print the existing logs; those of a pipeline by stage, with headings.

    Raises TaskFailed if the task, or a task of the pipeline, has failed; else KubeletUnreachable if
    the log of a node is missing.
    """
    missing = []
    if isinstance(target, TaskStatus):
        missing += logs.show(session, [target], request, ui)
    else:
        for task in target.tasks:
            ui.note(target.heading(task))
            missing += logs.show(session, [task], request, ui)
    check_outcome(session, target, _show(request, ui))
    if missing:
        raise missing[0]


def show_tasks(session: Session, tasks: Sequence[TaskStatus], request: LogRequest, ui: UI) -> None:
    """Print the existing logs of several tasks in order of time, with prefixes.

    Raises TaskFailed if tasks have failed; else KubeletUnreachable if the log of a node is missing.
    """
    missing = logs.show(session, tasks, request, ui)
    _check_outcomes(session, tasks)
    if missing:
        raise missing[0]


def _note_interrupted(target: Target) -> Interrupted:
    if isinstance(target, TaskStatus) and target.predecessor:
        return Interrupted(
            f"interrupted; task {target.id} is suspended until {target.predecessor} has succeeded",
            f"`kubectl sky wait {target.id} --continue` resumes it",
        )
    if isinstance(target, TaskStatus):
        return Interrupted(
            f"interrupted; task {target.id} goes on",
            f"`kubectl sky logs {target.id} -f` follows it,"
            f" `kubectl sky stop {target.id}` stops it",
        )

    suspended = "" if target.first_member.parallel else ", its later stages are suspended"
    return Interrupted(
        f"interrupted; {target.word} {target.id} goes on{suspended}",
        f"`kubectl sky wait {target.id} --continue` continues it,"
        f" `kubectl sky stop {target.id}` stops it",
    )


def _show(request: LogRequest, ui: UI) -> Mapping[str, str]:
    """Return the last line that was shown of each log; empty if lines were filtered."""
    return {} if ui.filters_logs else request.shown


def check_outcome(session: Session, target: Target, shown: Mapping[str, str] | None = None) -> None:
    """Raise TaskFailed if the task failed, or a task of the pipeline or group.

    `shown` has the last line that was shown of each log, by stream: a log is not quoted again.
    """
    if isinstance(target, PipelineStatus):
        if target.failed:
            text, hint = _reason(session, target.failed, shown or {})
            raise TaskFailed(_pipeline_failure(target, target.failed, text), hint)
    elif target.state is State.FAILED:
        text, hint = _reason(session, target, shown or {})
        raise TaskFailed(f"task {target.id} ({target.name}) failed: {text}", hint)


def _pipeline_failure(pipeline: PipelineStatus, failed: TaskStatus, text: str) -> str:
    if pipeline.first_member.parallel:
        others = [task.name for task in pipeline.tasks if task.state is State.FAILED][1:]
        suffix = f" (also failed: {', '.join(others)})" if others else ""
        subject = f"task {failed.id} ({failed.name}) of group {pipeline.id} ({pipeline.name})"
        return f"{subject} failed{suffix}: {text}"

    missing = [
        f"{stage} {pipeline.title(stage)}".rstrip()
        for stage in pipeline.missing
        if stage > pipeline.stage(failed)
    ]
    cancelled = f" (cancelled: stage {', '.join(missing)})" if missing else ""
    return (
        f"{pipeline.word} {pipeline.id} ({pipeline.name}) failed"
        f" at {pipeline.heading(failed)}{cancelled}: {text}"
    )


def _reason(session: Session, task: TaskStatus, shown: Mapping[str, str]) -> tuple[str, str]:
    """Describe how a task failed, with last log lines only if they were not shown; and a hint."""
    from kubectl_sky.tasks import doctor  # noqa: PLC0415 -- most tasks do not fail

    record = evidence.of_task(session, task)
    failed = failure.first_death(task, record) or task.first_failure
    pod = failed.pod if failed else ""
    cause = doctor.why_failed(session, task)
    verdict = cause.what if cause and cause.source is SignalSource.LOG else ""
    text = failure.describe(task, record, shown.get(names.log_stream(pod)), verdict)
    hint = cause.hint if cause else ""
    return text, "; ".join(filter(None, (hint, advise_rerun(task))))


def note_next_steps(
    session: Session, target_id: str, decision: "Decision", note: Callable[[str], None]
) -> None:
    """Note who goes on with what no client follows, and how to get into its nodes."""
    plans = decision.plans
    if names.INTERACTIVE in plans[0].annotations:
        note(_access_hint(target_id))

    later = _list_later_stages(plans)
    auxiliary = ", ".join(plan.title for plan in plans if plan.auxiliary)
    stops_nodes = any(map(_needs_stopping, plans))
    if not (later or auxiliary or stops_nodes):
        return

    if pipeline.controller_leads(session, decision.namespace):
        tasks = [
            f"resumes {later}" if later else "",
            f"stops {auxiliary} when the primary tasks have finished" if auxiliary else "",
            "stops the other nodes of a task when one fails" if stops_nodes else "",
        ]
        note(f"a controller {', and '.join(filter(None, tasks))}; no client is needed")
        return

    command = f"kubectl sky wait {target_id} --continue"
    if later:
        verb = "are" if " to " in later else "is"
        note(
            f"{later} {verb} suspended: Kubernetes has no controller that resumes a stage or task"
            f" when the one before it has succeeded. To continue, run: {command}"
        )
    if stops_nodes and _is_new_advice(session):
        note(
            "if a node fails, the others go on and keep their resources; to stop them then,"
            f" run: {command}"
        )
        if any(plan.backend == names.DEFAULT_BACKEND for plan in plans):
            note("to let the cluster stop them, run once: kubectl sky config set backend indexed")
    if auxiliary:
        note(
            f"{auxiliary} will keep running after the primary tasks: Kubernetes has no"
            f" controller that stops auxiliary tasks. To stop them in time, run: {command}"
        )


def _is_new_advice(session: Session) -> bool:
    """Return whether this machine has not been told yet who stops the nodes of a task."""
    if session.is_for_caller:
        return False
    folder = Folder(settings.cache_folder(), "told")
    if "backend" in folder.names():
        return False
    with suppress(OSError):
        folder.write("backend")
    return True


def _list_later_stages(plans: Sequence[Plan]) -> str:
    """Return the suspended stages, such as `stages 2 to 3`, or the task; empty without any."""
    if not any(plan.suspended for plan in plans):
        return ""
    if len(plans) == 1:
        return f"the task {plans[0].title}"
    first = 1 if plans[0].suspended else 2
    return f"stage {first}" if len(plans) == first else f"stages {first} to {len(plans)}"


def _needs_stopping(plan: Plan) -> bool:
    backend = registry.find(plan.backend)
    return len(plan.nodes) > 1 and not backend.fail_fast and bool(backend.stopping("node-0"))
