"""The errors a user may see, as one tree; the exit codes are the project's contract.

    SkyError                 1  anything of ours
    ├─ UserError             2  the user's file or flags
    │  ├─ InvalidFiles          carries every problem found, with its place
    │  └─ ProgramMissing        the image does not have the program
    ├─ ClusterError          3  the cluster said no, or said nothing
    │  ├─ NotFound              the object is not there
    │  ├─ NotServed             the cluster does not know objects of this kind
    │  │  └─ Outdated              it knows them in other versions alone
    │  ├─ Forbidden             RBAC says no
    │  ├─ Refused               an admission check says no: quota, limits, policy, webhook
    │  ├─ Conflict              somebody else changed it, or it exists already
    │  ├─ Unreachable           the server does not answer
    │  └─ Expired               a watch's version is too old (410): list again
    ├─ TaskFailed            4  the task itself failed
    └─ Interrupted         130  Ctrl-C

A message is one line: what is wrong, then what to do next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

MAX_LISTED = 100  # problems in a message
MORE = f"and more: only the first {MAX_LISTED} problems are listed"


class SkyError(Exception):
    """An error that is told to the user in one line, without a traceback."""

    exit_code = 1
    bare = False  # whether the message stands as it is, without "error: " before it

    def __init__(self, what: str, then: str = "") -> None:
        super().__init__(f"{what}; {then}" if then else what)
        self.what = what
        self.then = then


@dataclass(frozen=True, order=True)
class Problem:
    """Something wrong in a file. Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""
    severity: str = "error"
    document: int = 0  # its number among the file's several, from 1; 0 where there is one
    strict: bool = False  # whether it is an error only because warnings are taken for errors

    @property
    def place(self) -> str:
        """`task.yaml:7:3`; only the file where the whole of it is meant."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        """`task.yaml:7:3: resources.acelerators: unknown field; did you mean 'accelerators'?`."""
        number = f"document {self.document}" if self.document else ""
        parts = [part for part in (self.place, number, self.path) if part]
        if self.severity != "error" or self.strict:
            parts.append(self.severity)
        text = f"{': '.join(parts)}: {self.message}"
        return f"{text}; {self.hint}" if self.hint else text

    def as_error(self) -> "Problem":
        """The problem where warnings are taken for errors."""
        return self if self.severity == "error" else replace(self, severity="error", strict=True)

    def as_json(self) -> dict[str, object]:
        """The problem for programs."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def listed(problems: Sequence[Problem]) -> str:
    """Return one problem a line; of very many only the first errors."""
    shown = sorted(problems, key=lambda problem: problem.severity != "error")[:MAX_LISTED]
    if len(problems) <= MAX_LISTED:
        shown = list(problems)
    more = [MORE] if len(problems) > len(shown) else []
    return "\n".join([*map(str, shown), *more])


class UserError(SkyError):
    """The user's file or flags are wrong; nothing was sent."""

    exit_code = 2


class InvalidFiles(UserError):
    """Files with problems; the message is one problem a line."""

    bare = True

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(listed(problems))
        self.problems = tuple(problems)


class ProgramMissing(UserError):
    """The image does not have the program that was to run."""


class ClusterError(SkyError):
    """The cluster refused, failed or did not answer."""

    exit_code = 3


class NotFound(ClusterError):
    """The object is not there."""


class NotServed(ClusterError):
    """The cluster does not know objects of this kind: what brings them is not installed."""


class Outdated(NotServed):
    """The cluster knows objects of this kind in other versions alone."""

    def __init__(self, plural: str, served: Sequence[str], needed: str, then: str) -> None:
        found = f"the cluster serves {plural} as {', '.join(served)} alone"
        super().__init__(f"{found}, and {needed} is needed", then)


class Forbidden(ClusterError):
    """RBAC says no."""


class Refused(ClusterError):
    """An admission check says no: a quota, limits, a policy or a webhook."""


class Conflict(ClusterError):
    """Somebody else changed the object, or it exists already."""


class Unreachable(ClusterError):
    """The server does not answer, or the connection was lost."""


class Expired(ClusterError):
    """The resource version is too old (HTTP 410): list again."""


class TaskFailed(SkyError):
    """The task ran and failed."""

    exit_code = 4


class Interrupted(SkyError):
    """The user pressed Ctrl-C."""

    exit_code = 130
