"""Format pipelines and groups for `status`."""

from kubectl_sky.cli import output, tasks
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus


def details(pipeline: PipelineStatus) -> str:
    """Format a pipeline in full: the common fields, then a row for each task."""
    facts = {
        "Id": pipeline.id,
        "Name": pipeline.name,
        "Status": f"{pipeline.state}{f' — {pipeline.note}' if pipeline.note else ''}",
        "Execution": "parallel" if pipeline.member.parallel else "serial",
        "Namespace": pipeline.namespace,
        "User": pipeline.user,
        "Created": f"{pipeline.created_at} ({tasks.since(pipeline.created_at)} ago)",
        "Updated": f"{pipeline.updated_at} ({tasks.since(pipeline.updated_at)} ago)",
        "Tasks": f"{pipeline.count(State.COMPLETED)} of {pipeline.member.stages} completed",
    }
    head = "\n".join(output.fields(facts))
    rows = {
        pipeline.stage(task): [task.id, task.name, str(task.state), tasks.nodes(task), task.note]
        for task in pipeline.tasks
    } | {
        stage: ["", pipeline.title(stage), _status_of_missing(pipeline, stage), "", ""]
        for stage in pipeline.missing
    }
    table = output.table(
        ["STAGE", "ID", "NAME", "STATUS", "NODES", "NOTE"],
        [[str(stage), *rows[stage]] for stage in sorted(rows)],
    )
    return f"{head}\n\n{table}"


def _status_of_missing(pipeline: PipelineStatus, stage: int) -> str:
    """Return the status of a stage whose task does not exist."""
    if stage in pipeline.member.auxiliary:
        return "stopped"
    return "cancelled" if pipeline.failed else "not found"
