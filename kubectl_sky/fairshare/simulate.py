"""Simulate a queue with fair share, and the same queue without. Pure."""

import csv
import heapq
import io
import json
import random
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import UserError
from kubectl_sky.fairshare.model_policy import Policy

PERIODS = 12  # of the shares over time
_SECONDS = (300, 900)  # of a generated job
_LOAD = 4  # generated jobs arrive so many times faster than the slots can run them
_MAX_JOBS = 100_000
_FIELDS = ("user", "submitted", "seconds")


class Job(Struct, frozen=True):
    """A job that takes one slot; times are in seconds."""

    user: str
    submitted: int
    seconds: int


class Outcome(Struct, frozen=True):
    """How the users shared the slots: fractions of what was used, by user.

    `over_time` has PERIODS periods of equal length up to `end`. `contended` is the share while
    all users had waiting jobs, for `contended_seconds`. `waits` is the mean wait in seconds.
    """

    end: int
    over_time: Sequence[Mapping[str, float]]
    contended: Mapping[str, float]
    contended_seconds: int
    waits: Mapping[str, float]

    @property
    def deviation(self) -> float:
        """The largest relative difference of a contended share from an equal one; 0 for none."""
        if not self.contended_seconds:
            return 0.0
        users = len(self.contended)
        return max((abs(share * users - 1) for share in self.contended.values()), default=0.0)


@dataclass
class _Account:
    """The jobs of a user that wait, and what the class of the user remembers."""

    waiting: deque[tuple[int, Job]] = field(default_factory=deque)
    running: int = 0
    count: int = 0
    since: int = 0

    def key(self, policy: Policy | None, now: int) -> tuple[int, int]:
        """Return the order of the first waiting job: by value, then first come, first served."""
        if policy is None:
            return 0, self.waiting[0][0]
        self.count, self.since = policy.recovered(self.count, self.since, now)
        return -policy.value(self.count + self.running), self.waiting[0][0]


@dataclass
class _Run:
    """Jobs that ran, as user, start and end, and the times while all users had waiting jobs."""

    runs: list[tuple[str, int, int]] = field(default_factory=list)
    contended: list[tuple[int, int]] = field(default_factory=list)
    waits: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def generate(users: int, jobs: int, slots: int, seed: int) -> list[Job]:
    """Return random jobs of users who submit at unequal rates: 1, 1/2, 1/3."""
    rng = random.Random(seed)
    names = [f"user-{number}" for number in range(1, users + 1)]
    rates = [1 / number for number in range(1, users + 1)]
    submitted, made = 0.0, []
    for _ in range(jobs):
        submitted += rng.expovariate(slots * _LOAD * 2 / sum(_SECONDS))
        (user,) = rng.choices(names, rates)
        made.append(Job(user, int(submitted), rng.randint(*_SECONDS)))
    return made


def read_trace(text: str, file: str) -> list[Job]:
    """Read jobs from CSV with a header, or from a JSON list. Raises UserError."""
    try:
        is_json = text.lstrip().startswith("[")
        rows = json.loads(text) if is_json else list(csv.DictReader(io.StringIO(text)))
    except (ValueError, RecursionError, csv.Error) as error:
        raise UserError(f"{file}: {error}") from None
    if len(rows) > _MAX_JOBS:
        raise UserError(f"{file}: more than {_MAX_JOBS} jobs")
    jobs = [_job(row, f"{file}: job {number}") for number, row in enumerate(rows, start=1)]
    if not jobs:
        raise UserError(f"{file}: no jobs")
    return sorted(jobs, key=lambda job: job.submitted)


def _job(row: Any, where: str) -> Job:  # noqa: ANN401 -- any JSON
    try:
        user, submitted, seconds = (row[name] for name in _FIELDS)
        job = Job(str(user), int(submitted), int(seconds))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UserError(f"{where} is invalid", f"it needs {', '.join(_FIELDS)}") from None
    if not (job.user and 0 <= job.submitted < 10**12 and 0 < job.seconds < 10**12):
        raise UserError(f"{where} is invalid", "submitted must be at least 0, seconds at least 1")
    return job


def simulate(jobs: Sequence[Job], slots: int, policy: Policy | None) -> Outcome:
    """Run jobs, which are sorted by time, on slots; None is first come, first served."""
    return _outcome(_run(jobs, slots, policy))


def _run(jobs: Sequence[Job], slots: int, policy: Policy | None) -> _Run:
    accounts = {job.user: _Account() for job in jobs}
    arrivals = deque(enumerate(jobs))
    finishes: list[tuple[int, int, str]] = []
    result, now = _Run(), 0
    while arrivals or finishes:
        contended = all(account.waiting for account in accounts.values())
        following = min(
            ([arrivals[0][1].submitted] if arrivals else [])
            + ([finishes[0][0]] if finishes else [])
        )
        if contended and following > now:
            result.contended.append((now, following))
        now = following
        while finishes and finishes[0][0] == now:
            _finish(accounts[heapq.heappop(finishes)[2]], policy, now)
        while arrivals and arrivals[0][1].submitted == now:
            number, job = arrivals.popleft()
            accounts[job.user].waiting.append((number, job))
        while len(finishes) < slots:
            waiting = [account for account in accounts.values() if account.waiting]
            if not waiting:
                break
            account = min(waiting, key=lambda account: account.key(policy, now))
            number, job = account.waiting.popleft()
            _start(account, policy, now)
            heapq.heappush(finishes, (now + job.seconds, number, job.user))
            result.runs.append((job.user, now, now + job.seconds))
            result.waits[job.user].append(now - job.submitted)
    return result


def _start(account: _Account, policy: Policy | None, now: int) -> None:
    account.running += 1
    if policy:
        account.since = policy.restarted(account.count, account.since, now)


def _finish(account: _Account, policy: Policy | None, now: int) -> None:
    account.running -= 1
    if policy:
        account.count, account.since = policy.recovered(account.count, account.since, now)
        account.since = policy.restarted(account.count, account.since, now)
    account.count += 1


def _outcome(result: _Run) -> Outcome:
    end = max(finish for _, _, finish in result.runs)
    bounds = [end * number // PERIODS for number in range(PERIODS + 1)]
    periods = list(pairwise(bounds))
    return Outcome(
        end,
        [_shares(result, [period]) for period in periods],
        _shares(result, result.contended),
        sum(until - start for start, until in result.contended),
        {user: sum(waits) / len(waits) for user, waits in sorted(result.waits.items())},
    )


def _shares(result: _Run, times: Iterable[tuple[int, int]]) -> dict[str, float]:
    """Return the shares of the used slots within some times, by user."""
    used = dict.fromkeys(sorted(result.waits), 0)
    merged = _merged(times)
    for user, start, finish in result.runs:
        for first, last in merged:
            used[user] += max(0, min(finish, last) - max(start, first))
    total = sum(used.values())
    return {user: amount / total if total else 0.0 for user, amount in used.items()}


def _merged(times: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join times that touch: there are few, and as many as events otherwise."""
    merged: list[tuple[int, int]] = []
    for first, last in times:
        if merged and merged[-1][1] == first:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
