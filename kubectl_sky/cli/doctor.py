"""`kubectl sky doctor`."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.errors import Forbidden, UserError
from kubectl_sky.observe.findings import DiagnosisList
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.rerun import advise_rerun

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.observe.verdict import Diagnosis
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.doctor import ClusterCheck
    from kubectl_sky.tasks.find import Scope, Target

# Add-ons that tasks can use in addition to those of the backends, by their API group.
_ADD_ONS = {
    "kueue.x-k8s.io": "Kueue",
    "ray.io": "KubeRay",
    "metrics.k8s.io": "metrics",
}


_MAX_UNWELL = 5  # tasks


def _extras(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...]:
    from kubectl_sky.observe.rights import EXTRAS

    names = tuple(name.strip() for name in (value or "").split(",") if name.strip())
    for name in names:
        if name not in EXTRAS:
            raise UserError(f'invalid value "{name}" for --with', f"values: {', '.join(EXTRAS)}")
    return names


@commands.command(
    "doctor",
    examples=[
        "doctor",
        "doctor train",
        "doctor 'train-*' eval",
        "doctor train --share",
        "doctor --role --with clean | kubectl apply -f -",
    ],
)
@options.tasks
@options.cluster_all_namespaces
@options.all_users
@click.option("--role", is_flag=True, help="Print the Role that the commands need; no TASK.")
@click.option(
    "--with",
    "extras",
    metavar="NAME,...",
    callback=_extras,
    help="Add rare rights to --role. clean: list Secrets; cluster: read nodes, storage classes"
    " and queues, by a ClusterRole; serve: run services (default: none).",
)
@click.option(
    "--share",
    is_flag=True,
    help="Print all that a ticket about TASK needs: Markdown, with secrets masked.",
)
@options.output("json", "yaml")
def command(
    choice: "Choice",
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    **flags: object,
) -> int:
    """Explain why each TASK does not start or has failed, and how to fix it.

    Of a pipeline or group, it explains the task that failed or that the others wait for.

    Without TASK, name those of your tasks that are not well, then check the cluster and your rights
    in the namespace, and exit with 3 if a required right is missing. A cluster admin can apply the
    Role that --role prints.
    """
    from kubectl_sky.tasks import doctor
    from kubectl_sky.tasks.choice import find_targets

    is_of_tasks = bool(choice.references) or choice.is_filter
    _check(is_of_tasks, form, flags)
    session = cluster.session()
    if flags["role"]:
        items = doctor.make_role(session, cast("tuple[str, ...]", flags["extras"]))
        if form == "json":
            output.out(output.data({"apiVersion": "v1", "kind": "List", "items": items}, form))
        else:
            output.out("\n---\n".join(output.data(item, "yaml") for item in items))
        return 0
    if not is_of_tasks:
        if not form:
            _show_unwell(session, options.scope(session, cluster, all_users))
        check = doctor.check_cluster(session)
        output.out(output.data(check.as_json(), form) if form else _format_check(check))
        return 0 if check.ok else 3
    scope = options.scope(session, cluster, all_users)
    if choice.may_be_several:
        _show_verdicts(session, find_targets(session, scope, choice), form, flags)
        return 0
    session, match = tasks.locate_or_show_evidence(session, scope, choice)
    task = _current(match)
    if flags["share"]:
        from kubectl_sky.cli import share

        output.out(share.report(session, task, format_verdict))
        return 0
    verdict = doctor.diagnose(session, task)
    output.out(output.data(verdict.as_json(), form) if form else format_verdict(verdict))
    return 0


def _current(target: "Target") -> "TaskStatus":
    """Return the task that a pipeline waits for, or that failed."""
    if isinstance(target, PipelineStatus):
        output.note(target.heading(target.current))
        return target.current
    return target


def _show_verdicts(
    session: "Session", targets: "Sequence[Target]", form: str | None, flags: Mapping[str, object]
) -> None:
    """Explain tasks one after the other; programs get one list."""
    from kubectl_sky.tasks import doctor

    if flags["share"]:
        raise UserError("--share is about one task", "name one TASK")
    verdicts = [doctor.diagnose(session, _current(target)) for target in targets]
    if form:
        documents = [verdict.document for verdict in verdicts]
        output.out(output.data(DiagnosisList(diagnoses=documents), form))
    elif verdicts:
        output.out("\n\n\n".join(map(format_verdict, verdicts)))
    else:
        output.note("No tasks found.")


def _show_unwell(session: "Session", scope: "Scope") -> None:
    """Print the newest tasks that have failed, that something keeps from starting, or that hang."""
    from kubectl_sky.actions.config import preferences
    from kubectl_sky.tasks.list import list_tasks

    try:
        listed = list_tasks(session, scope, silent_after=lambda: preferences().silence_limit).tasks
    except Forbidden:  # the check says which right is missing
        return
    unwell = [task for task in listed if _is_unwell(task)]
    for task in unwell[:_MAX_UNWELL]:
        output.out(tasks.line(task))
    if unwell:
        rest = len(unwell) - _MAX_UNWELL
        more = f"; {rest} more are in kubectl sky list" if rest > 0 else ""
        output.out(f"next: kubectl sky doctor {unwell[0].id}{more}\n")


def _is_unwell(task: "TaskStatus") -> bool:
    if task.state is State.FAILED or task.silence:
        return True
    return task.state is State.PENDING and bool(task.note) and not task.suspended


def _check(is_of_tasks: bool, form: str | None, flags: Mapping[str, object]) -> None:
    if flags["extras"] and not flags["role"]:
        raise UserError("--with adds rights to the Role that --role prints", "add --role")
    if flags["role"] and is_of_tasks:
        raise UserError("--role is about no task", "leave out TASK, -l and --all")
    if flags["share"] and (form or not is_of_tasks):
        raise UserError("--share needs a TASK, and prints Markdown", "name a task, without -o")


def format_verdict(verdict: "Diagnosis") -> str:
    """Format the stages, one per line, and each cause with its next step."""
    headline = verdict.headline
    lines = [*(output.wrap(headline, 0) if sys.stdout.isatty() else [headline]), ""]
    for stage, step in verdict.stages:
        causes = [finding for finding in verdict.findings if finding.stage is stage]
        lines.append(f"{stage:<12}{output.in_color(step)}")
        for finding in causes:
            cause = output.wrap(finding.cause(verdict.task.num_nodes, verdict.task.title), 12)
            advice_lines = output.wrap(f"next: {finding.then}", 12)
            lines += [f"{'':<12}{line}" for line in (*cause, *advice_lines)]
    if advice := advise_rerun(verdict.task):
        lines += ["", *output.wrap(advice, 0)]
    if verdict.unread:
        lines += ["", f"not checked, because you may not list them: {', '.join(verdict.unread)}"]
    return "\n".join(lines)


def _format_check(check: "ClusterCheck") -> str:
    from kubectl_sky.workloads import registry

    unknown = "unknown: you may not list them"
    node_count = unknown if check.cluster_nodes is None else str(check.cluster_nodes)
    storage = unknown if check.storage is None else check.storage
    all_add_ons = registry.ADD_ONS | _ADD_ONS
    add_ons = [name for group, name in all_add_ons.items() if group in check.groups]
    if check.gang_scheduling:
        add_ons.insert(0, f"gangs of Kubernetes ({check.gang_scheduling})")
    facts = {
        "Context": check.context,
        "Server": f"{check.server} ({check.version})",
        "Namespace": check.namespace,
        "Nodes": node_count,
        "Storage": storage or "no default StorageClass: set storage_class in each volume",
        "Add-ons": ", ".join(add_ons) or "none that tasks use",
    }
    missing = [right for right in check.missing if not right.extra]
    extras = ", ".join(dict.fromkeys(right.extra for right in check.missing if right.extra))
    facts["Rights"] = f"{len(missing)} missing" if missing else "all that the commands need"
    if extras:
        facts["Extras"] = f"without the rights of {extras}: see --with in `doctor --help`"
    if check.unlimited:
        facts["Unlimited"] = f"in this namespace: {', '.join(check.unlimited)}"
    lines = output.fields(facts)
    if not missing:
        return "\n".join(lines)
    needs = {True: "optional", False: "required"}
    rows = [[str(right), needs[right.optional], right.commands] for right in missing]
    table = output.table(["MISSING RIGHT", "IS", "FOR"], rows)
    role = f"kubectl sky doctor --role -n {check.namespace}"
    advice = f"`{role}` prints a Role for a cluster admin to apply"
    return "\n".join([*lines, "", table, "", advice])
