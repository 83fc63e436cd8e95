"""When a task starts and ends, and who is told: limits, requeue, dependency, signal and mail."""

import re

from kubectl_sky.slurm import values
from kubectl_sky.slurm.directives import Directive
from kubectl_sky.slurm.draft import Draft

_DEPENDENCY = re.compile(r"afterok:(?P<task>[A-Za-z][\w.-]{0,252})")
_JOB_NUMBER = re.compile(r"after\w*:[\d$][^:,?]*")
_SIGNAL = re.compile(r"R?B:(?P<name>(?:SIG)?[A-Z0-9]+)(?:@(?P<seconds>[1-9]\d{0,4}))?")
_SEND_SIGNAL = """\
kill -{} "$(cat "$KUBECTL_SKY_FILES/running")"
while kill -0 "$(cat "$KUBECTL_SKY_FILES/running")"; do sleep 1; done 2> /dev/null
"""


def put_lifecycle(draft: Draft) -> None:
    """Set the limits of a task, and name what ends or tells otherwise."""
    given = draft.given
    if limit := draft.read("time", values.seconds):
        draft.put(("max_duration",), values.duration(limit), given["time"])
    if directive := given.get("requeue"):
        path = ("resources", "job_recovery")
        draft.put(path, {"max_restarts_on_errors": 0}, directive)
    if directive := given.get("dependency"):
        _put_dependency(draft, directive)
    if directive := given.get("signal"):
        _put_signal(draft, directive)
    mail = given.get("mail-user") or given.get("mail-type")
    if mail and given.get("mail-type", mail).value.upper() != "NONE":
        wait = f"kubectl sky wait {draft.data['name']} --notify URL"
        hint = f"use {wait}, or notify in the settings of the tasks controller"
        draft.warn(mail, "not carried out: no mail is sent, but a URL can be notified", hint)


def _put_dependency(draft: Draft, directive: Directive) -> None:
    """Let the task wait for the success of another, as `submit --after` does."""
    if match := _DEPENDENCY.fullmatch(directive.value):
        draft.after = match["task"]
    elif _JOB_NUMBER.fullmatch(directive.value):
        message = "not carried out: jobs of Slurm are unknown here"
        draft.warn(directive, message, "name a task of the cluster: --dependency=afterok:TASK")
    else:
        message = "not carried out: a task waits only for one other, which must succeed"
        draft.warn(directive, message, "write --dependency=afterok:TASK, or use submit --after")


def _put_signal(draft: Draft, directive: Directive) -> None:
    """Send the signal before SIGTERM, for as long as it would come before the time limit."""
    match = _SIGNAL.fullmatch(directive.value.upper())
    if not match:
        message = "not carried out: only signals to the script are sent, such as B:USR1@60"
        draft.warn(directive, message, "trap TERM in the program, which gets it at the time limit")
        return
    run = _SEND_SIGNAL.format(match["name"].removeprefix("SIG"))
    hook = {"run": run, "events": ["stop"], "timeout": int(match["seconds"] or 60)}
    draft.put(("config", "hooks"), [hook], directive)
