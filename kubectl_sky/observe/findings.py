"""Turn symptoms into findings with small rules, one for each known failure."""

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.escapes import plain
from kubectl_sky.observe.nodes import end_text
from kubectl_sky.observe.ranks import RankActivity
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot, find_signals
from kubectl_sky.words import bounded
from kubectl_sky.words.decoding import convert
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.notice import Notice

SEE_LOGS = "see `kubectl sky logs {id}{rank}`"
BEING_DELETED = "being-deleted"  # a rule that explains no other symptom
_MAX_HEADLINE = 80  # characters from which details are left out
_MAX_CUT_HEADLINE = 120  # characters
# In sentences of rules; others quote something.
_OWN_WORDS = {"id", "rank", "namespace", "end", "code"}
_BEGINNINGS = re.compile(r": | desc = ")  # of the clauses of a message
_CODE = re.compile(r"^code = \w+ desc = ")
_ENDS = (SignalSource.ENDED, SignalSource.INIT_ENDED, SignalSource.RAY_HEAD)


class Stage(StrEnum):
    """The stages of a task, in order."""

    QUEUE = "queue"
    ADMISSION = "admission"
    SCHEDULING = "scheduling"
    VOLUMES = "volumes"
    IMAGE = "image"
    START = "start"
    SETUP = "setup"
    RUN = "run"


Detail = Callable[[TaskSnapshot, Signal, Mapping[str, str]], Mapping[str, str]]


class Rule(Struct, frozen=True):
    """One known failure: the symptom that shows it, what it means and what to do.

    `what` and `then` are format strings with the named groups of `message`, `id`, `namespace`,
    `about`, `reason`, `message`, `end`, `why` (the message from the clause on that matches), and
    the values that `detail` adds. `|` divides `what` into
    up to three parts: the headline has the first one, and the second one if it is short.
    """

    name: str
    stage: Stage
    source: SignalSource
    what: str
    then: str
    reason: str = ".*"  # a regular expression, which must match in full
    message: str = ""  # a regular expression
    detail: Detail | None = None
    mere: bool = False  # dropped if another finding explains the same nodes

    def notice(self, words: Mapping[str, str]) -> Notice:
        """Return its first part, or its name if that quotes a message or a log."""
        head = self.what.partition("|")[0]
        quoted = {field for _, field, _, _ in string.Formatter().parse(head) if field}
        return Notice(self.name if quoted - _OWN_WORDS else head.format_map(words))


class Finding(Struct, frozen=True, rename={"ranks": "nodes"}):
    """A cause, and what to do."""

    rule: str
    stage: Stage
    what: str
    then: Annotated[str, Note("the next step")]
    ranks: Annotated[tuple[int, ...], Note("ranks; empty for the whole task")] = ()
    evidence: Annotated[str, Note("what the cluster says")] = ""


class Diagnosis(Document, frozen=True, kw_only=True):
    """Why a task does not start or has failed: `doctor TASK`, `GET /tasks/ID/doctor`."""

    task_id: str
    name: str
    status: str
    summary: str
    stages: Annotated[dict[str, str], Note("`ok`, `problem`, … by stage")]
    findings: list[Finding]
    not_readable: Annotated[Sequence[str], Note("kinds that you may not list")]
    ranks: Annotated[tuple[RankActivity, ...], Note("nodes of a running task, if several")] = ()


class DiagnosisList(Document, frozen=True, kw_only=True):
    """What stops several tasks: `doctor TASK TASK`."""

    diagnoses: list[Diagnosis]


class Cause(Finding, frozen=True):
    """A finding, and what texts of commands need of it."""

    headline: str = ""  # the cause in one short sentence
    hint: str = ""  # the next step, below an error that quotes the log; empty if it is to read it
    notice: Notice = Notice("")  # what may be told to those who may not read logs
    source: SignalSource = SignalSource.NODE
    mere: bool = False  # dropped if another finding explains the same nodes

    def __repr__(self) -> str:
        """Return what a Python shell shows."""
        return f"<Cause {self.what}; next: {self.then}>"

    def cause(self, num_nodes: int, title: Callable[[int], str]) -> str:
        """What is wrong, and in a task of several nodes on which of them, with their titles."""
        if not self.ranks or num_nodes == 1:
            return self.what
        return f"{spans(self.ranks, title)}: {self.what}"

    @property
    def finding(self) -> Finding:
        """What programs see of it."""
        return convert(self, Finding)


def ranges(ranks: Iterable[int]) -> list[list[int]]:
    """Return the first and the last of each run of ranks, which are sorted."""
    pairs: list[list[int]] = []
    for rank in ranks:
        if pairs and rank == pairs[-1][-1] + 1:
            pairs[-1] = [pairs[-1][0], rank]
        else:
            pairs.append([rank, rank])
    return pairs


def spans(ranks: tuple[int, ...], title: Callable[[int], str] = "node-{}".format) -> str:
    """Format ranks as ranges: `node-0 to node-3, node-7`."""
    names = (map(title, dict.fromkeys(pair)) for pair in ranges(ranks))
    return ", ".join(" to ".join(pair) for pair in names)


class _Words(dict[str, str]):
    """The values of a format string; a missing one is empty."""

    def __missing__(self, key: str) -> str:
        return ""


def diagnose(snapshot: TaskSnapshot, rules: Sequence[Rule]) -> list[Cause]:
    """Return the findings in stage order; symptoms that match no rule are skipped."""
    signals = find_signals(snapshot)
    findings = [it for signal in signals if (it := find_cause(snapshot, signal, rules))]
    causes = [finding for finding in findings if not finding.mere]
    explaining = [cause for cause in causes if cause.rule != BEING_DELETED]
    findings = causes + [
        finding for finding in findings if finding.mere and not _is_explained(finding, explaining)
    ]
    order = list(Stage)
    return sorted(_merge(findings), key=lambda finding: (order.index(finding.stage), finding.ranks))


def _is_explained(finding: Cause, causes: Sequence[Cause]) -> bool:
    """Return whether the causes already cover all ranks of a finding."""
    if any(not cause.ranks for cause in causes):
        return True
    explained = {rank for cause in causes for rank in cause.ranks}
    return bool(explained) and explained >= set(finding.ranks)


def find_cause(snapshot: TaskSnapshot, signal: Signal, rules: Sequence[Rule]) -> Cause | None:
    """Return the finding of the first rule that matches a symptom; None if none does."""
    for rule in rules:
        if rule.source is signal.source and re.fullmatch(rule.reason, signal.reason):
            match = re.search(rule.message, signal.message, re.DOTALL)
            if match:
                return _finding(snapshot, signal, rule, match)
    return None


def find_host(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the cluster node of the first affected node, for the words of a rule."""
    pods = (snapshot.pods[rank] for rank in signal.ranks if rank in snapshot.pods)
    hosts = (pod.spec.node_name for pod in pods)
    return {"host": next(filter(None, hosts), "HOST")}


def _finding(snapshot: TaskSnapshot, signal: Signal, rule: Rule, match: re.Match[str]) -> Cause:
    groups = {name: value or "" for name, value in match.groupdict().items()}
    reason, _, code = signal.reason.rpartition(" ")  # `Error 7`
    code = code if code.isdecimal() else ""
    has_code = code and signal.source in _ENDS
    end = end_text(reason, bounded.integer(code)) if has_code else ""

    words = _Words(
        groups,
        why=groups.get("why") or _clause(signal.message, match.start()),
        id=snapshot.task_id,
        rank=rank_flag(snapshot, signal),
        namespace=snapshot.namespace,
        about=signal.about,
        reason=signal.reason,
        message=signal.message,
        end=end,
    )
    if rule.detail:
        words.update(rule.detail(snapshot, signal, groups))

    words = _Words({name: plain(text) for name, text in words.items()})

    parts = [part.format_map(words) for part in rule.what.split("|")]
    then = _one_line(rule.then.format_map(words))
    hint = "" if then == SEE_LOGS.format_map(words) else then

    return Cause(
        rule=rule.name,
        stage=rule.stage,
        what=_one_line("".join(parts)),
        then=then,
        ranks=signal.ranks,
        evidence=plain(signal.message) or signal.reason,
        headline=_headline(parts),
        hint=hint,
        notice=rule.notice(words),
        source=rule.source,
        mere=rule.mere,
    )


def _clause(message: str, position: int) -> str:
    """Return the end of a message, from the beginning of the clause at a position."""
    starts = (it.end() for it in _BEGINNINGS.finditer(message, 0, position))
    return _CODE.sub("", message[max(starts, default=0) :])


def rank_flag(snapshot: TaskSnapshot, signal: Signal) -> str:
    """Return the flag for the log of one index of an array; empty for other tasks."""
    task = snapshot.status
    is_array = task and task.num_nodes > 1 and task.workload.independent_nodes
    return f" --rank {signal.ranks[0]}" if is_array and signal.ranks else ""


def _headline(parts: Sequence[str]) -> str:
    """Return the first part of a cause, and the second one if both are short."""
    short = _one_line("".join(parts[:2]))
    text = short if len(short) <= _MAX_HEADLINE else _one_line(parts[0])
    return text if len(text) <= _MAX_CUT_HEADLINE else f"{text[: _MAX_CUT_HEADLINE - 1]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _merge(findings: Sequence[Cause]) -> list[Cause]:
    merged: dict[str, Cause] = {}
    for finding in findings:
        previous = merged.get(finding.what)
        ranks = tuple(sorted({*finding.ranks, *(previous.ranks if previous else ())}))
        merged[finding.what] = replace(previous or finding, ranks=ranks)
    return list(merged.values())
