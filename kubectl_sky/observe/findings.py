"""From complaints to a verdict: small rules, each for one known failure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kubectl_sky.observe.symptoms import Snapshot, Source, Symptom, symptoms


class Stage(StrEnum):
    """What a task goes through, in this order."""

    QUEUE = "queue"
    ADMISSION = "admission"
    SCHEDULING = "scheduling"
    VOLUMES = "volumes"
    IMAGE = "image"
    START = "start"
    SETUP = "setup"
    RUN = "run"


Detail = Callable[[Snapshot, Symptom, Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True)
class Rule:
    """One known failure: who says it and how, what it means, and what to do next.

    `reason` and `message` are regular expressions, the first for the whole reason. The texts are
    formats of the message's named groups, of `id`, `namespace`, `about`, and of what `detail` adds.
    """

    name: str
    stage: Stage
    source: Source
    what: str
    then: str
    reason: str = ".*"
    message: str = ""
    detail: Detail | None = None
    mere: bool = False  # explains nothing where another finding does


@dataclass(frozen=True)
class Finding:
    """A cause: what is wrong with which nodes (by rank; none: the task), and what to do next."""

    rule: str
    stage: Stage
    what: str
    then: str
    ranks: tuple[int, ...] = ()
    evidence: str = ""  # the cluster's own words
    mere: bool = field(default=False, compare=False)

    def as_json(self) -> dict[str, object]:
        """The finding for programs."""
        return {
            "rule": self.rule,
            "stage": str(self.stage),
            "what": self.what,
            "then": self.then,
            "nodes": list(self.ranks),
            "evidence": self.evidence,
        }


class _Words(dict[str, str]):
    """The words of a format; what a message does not say is left empty."""

    def __missing__(self, key: str) -> str:
        return ""


def diagnose(seen: Snapshot, rules: Sequence[Rule]) -> list[Finding]:
    """Return what is wrong, in the order of a start; complaints that no rule knows stand as is."""
    found = list(_findings(seen, rules))
    causes = [finding for finding in found if not finding.mere]
    found = causes + [finding for finding in found if finding.mere and not _told(finding, causes)]
    order = list(Stage)
    return sorted(_merged(found), key=lambda finding: (order.index(finding.stage), finding.ranks))


def _told(finding: Finding, causes: Sequence[Finding]) -> bool:
    """Whether others explain what became of all the nodes that a finding is about."""
    if any(not cause.ranks for cause in causes):
        return True
    known = {rank for cause in causes for rank in cause.ranks}
    return bool(known) and known >= set(finding.ranks)


def _findings(seen: Snapshot, rules: Sequence[Rule]) -> Iterator[Finding]:
    for symptom in symptoms(seen):
        rule, match = _first(symptom, rules)
        if rule and match:
            yield _finding(seen, symptom, rule, match)


def _first(
    symptom: Symptom, rules: Sequence[Rule]
) -> tuple[Rule, re.Match[str]] | tuple[None, None]:
    for rule in rules:
        if rule.source is symptom.source and re.fullmatch(rule.reason, symptom.reason):
            match = re.search(rule.message, symptom.message, re.DOTALL)
            if match:
                return rule, match
    return None, None


def _finding(seen: Snapshot, symptom: Symptom, rule: Rule, match: re.Match[str]) -> Finding:
    groups = {name: value or "" for name, value in match.groupdict().items()}
    words = _Words(
        groups,
        id=seen.task_id,
        namespace=seen.namespace,
        about=symptom.about,
        reason=symptom.reason,
        message=symptom.message,
    )
    if rule.detail:
        words.update(rule.detail(seen, symptom, groups))
    return Finding(
        rule=rule.name,
        stage=rule.stage,
        what=" ".join(rule.what.format_map(words).split()),
        then=" ".join(rule.then.format_map(words).split()),
        ranks=symptom.ranks,
        evidence=symptom.message or symptom.reason,
        mere=rule.mere,
    )


def _merged(found: Sequence[Finding]) -> list[Finding]:
    """Tell once what is told of several ranks."""
    together: dict[tuple[str, str], Finding] = {}
    for finding in found:
        key = (finding.rule, finding.what)
        before = together.get(key)
        ranks = tuple(sorted({*finding.ranks, *(before.ranks if before else ())}))
        together[key] = Finding(
            finding.rule, finding.stage, finding.what, finding.then, ranks, finding.evidence
        )
    return list(together.values())
