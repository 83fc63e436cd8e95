"""The hierarchy of errors that users see; the exit codes are a stable contract.

    SkyError                 1  any other error: a bug, or a timeout of waiting
    ├─ UserError             2  the user's file or flags are invalid
    │  ├─ InvalidFiles          has every problem found, with its location
    │  ├─ ProgramMissing        the image does not have the program
    │  ├─ UnknownName           nothing matches a name or an id
    │  ├─ NameTaken             a name or an id is in use
    │  └─ InUse                 running tasks use the object
    ├─ ClusterError          3  the cluster refused, failed or did not answer
    │  ├─ NotFound              the object does not exist
    │  │  └─ NoEarlierLog          the container has not run before, or its log was deleted
    │  ├─ NotServed             the cluster does not serve this kind
    │  │  └─ Outdated              the cluster serves only other versions of this kind
    │  ├─ Unauthorized          the credentials are missing, wrong or expired
    │  ├─ Forbidden             RBAC denies the request
    │  ├─ Invalid               a value in an object is invalid (422)
    │  ├─ Refused               admission denies the request: quota, limits, policy, webhook
    │  ├─ Conflict              the object was changed by another client, or already exists
    │  ├─ Unreachable           the API server does not answer
    │  │  └─ Unprocessed           the request had no effect: it may be sent again
    │  ├─ KubeletUnreachable    the cluster node of a pod does not respond; the API server does
    │  ├─ TimedOut              a program in a pod did not finish in time
    │  └─ Expired               the resource version of a watch is too old (410): list again
    ├─ TaskFailed            4  the task itself failed
    │  └─ TaskStopped           it was stopped, or cannot go on
    └─ Interrupted         130  Ctrl-C

Printed as two lines: `error:` what is wrong, `hint:` what to do next.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.words.documents import Note
from kubectl_sky.words.notice import Notice

MAX_LISTED = 100  # maximum number of problems in a message
MORE = f"and more: only the first {MAX_LISTED} problems are listed"


class SkyError(Exception):
    """An error that is shown to the user without a traceback."""

    exit_code = 1
    is_quote = False  # whether the message ends with the words of a program
    without_prefix = False  # whether to print the message without the prefix "error: "

    def __init__(self, what: str, hint: str = "") -> None:
        separator = "\nhint: " if "\n" in what or self.is_quote else "; "
        super().__init__(f"{what}{separator}{hint}" if hint else what)
        self.what = what
        self.hint = hint
        self.problems: tuple[Problem, ...] = ()  # of files, with their positions
        self.remaining: Sequence[Mapping[str, Any]] = ()  # objects that may still exist

    @property
    def message(self) -> str:
        """What is wrong, without the hint."""
        return self.what


class Problem(Struct, frozen=True, order=True):
    """A problem in a file. Lines and columns count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    path: Annotated[str, Note("field, such as `resources.cpus`")]
    message: str
    hint: Annotated[str, Note("what to do next; may be empty")] = ""
    severity: Annotated[str, Note("`error` or `warning`")] = "error"
    document: Annotated[
        int, Note("number of the document in the file, from 1; 0 if it is the only one")
    ] = 0
    strict: Annotated[bool, Note("a warning that `--strict` treats as an error")] = False

    @property
    def location(self) -> str:
        """Return the location, such as `task.yaml:7:3`; only the file for a whole file."""
        file = "".join(char if char.isprintable() else "?" for char in self.file)  # as ls does
        return f"{file}:{self.line}:{self.column}" if self.line else file

    def __str__(self) -> str:
        """Format the problem on one line.

        `task.yaml:7:3: resources.acelerators: unknown field; did you mean 'accelerators'?`
        """
        number = f"document {self.document}" if self.document else ""
        parts = [part for part in (self.location, number, self.path) if part]
        if self.severity != "error" or self.strict:
            parts.append(self.severity)
        text = f"{': '.join(parts)}: {self.message}"
        return f"{text}; {self.hint}" if self.hint else text

    def as_error(self) -> "Problem":
        return self if self.severity == "error" else replace(self, severity="error", strict=True)


def join_names(problems: Sequence[Problem]) -> str:
    """Format problems, one per line; above MAX_LISTED only the first, errors first."""
    shown = sorted(problems, key=lambda problem: problem.severity != "error")[:MAX_LISTED]
    if len(problems) <= MAX_LISTED:
        shown = list(problems)
    more = [MORE] if len(problems) > len(shown) else []
    return "\n".join([*map(str, shown), *more])


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return `did you mean "train"? ` with the most similar name, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 -- of errors only

    return "".join(f'did you mean "{item}"? ' for item in get_close_matches(name, [*names], 1, 0.7))


class UserError(SkyError):
    """The user's file or flags are wrong; nothing was sent."""

    exit_code = 2


class InvalidFiles(UserError):
    """Files have problems; the message has one problem per line."""

    without_prefix = True

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(join_names(problems))
        self.problems = tuple(problems)


class ProgramMissing(UserError):
    """The image does not have the program to run."""


class UnknownName(UserError):
    """No task, volume or queue matches the name or id."""


class NameTaken(UserError):
    """Another object has the name or id, or other fields."""


class InUse(UserError):
    """Running tasks use the object that is to be deleted."""


class ClusterError(SkyError):
    """The cluster refused, failed or did not answer."""

    exit_code = 3


class NotFound(ClusterError):
    """The object does not exist."""


class NoEarlierLog(NotFound):
    """A container was not restarted, or the log of its earlier run was deleted."""


class NotServed(ClusterError):
    """The cluster does not serve this kind: the add-on that has it is not installed."""


class Outdated(NotServed):
    """The cluster serves this kind only in other versions."""

    def __init__(self, plural: str, served: Sequence[str], needed: str, hint: str) -> None:
        versions = f"the cluster serves {plural} only as {', '.join(served)}"
        super().__init__(f"{versions}, but {needed} is required", hint)


class Unauthorized(ClusterError):
    """The API server does not accept the credentials, or there are none."""


class Forbidden(ClusterError):
    """RBAC denies the request."""


class Invalid(ClusterError):
    """The API server refuses a value in an object."""


class Refused(ClusterError):
    """Admission denies the request: a quota, limits, a policy or a webhook."""


class Conflict(ClusterError):
    """Another client changed the object, or the object already exists."""


class Unreachable(ClusterError):
    """The API server does not answer, or the connection was lost."""


class Unprocessed(Unreachable):
    """The request had no effect, so that any may be sent again, for `seconds`; None for longer."""

    def __init__(self, what: str, hint: str = "", seconds: float | None = None) -> None:
        super().__init__(what, hint)
        self.seconds = seconds


class KubeletUnreachable(ClusterError):
    """The API server answers, but cannot reach the kubelet of one pod.

    `problem` is what is wrong with the cluster node; its name `node` is empty if not known.
    """

    def __init__(
        self, what: str, hint: str = "", problem: str = "does not respond", node: str = ""
    ) -> None:
        super().__init__(what, hint)
        self.problem = problem
        self.node = node


class TimedOut(ClusterError):
    """A program in a pod did not finish in time."""


class Expired(ClusterError):
    """The resource version is too old (HTTP 410): list again."""


class TaskFailed(SkyError):
    """The task ran and failed."""

    exit_code = 4
    is_quote = True


class TaskStopped(TaskFailed):
    """The task was stopped, or cannot go on. `notice` quotes no program."""

    def __init__(self, notice: Notice, hint: str = "") -> None:
        super().__init__(notice, hint)
        self.notice = notice


class Interrupted(SkyError):
    """The user pressed Ctrl-C."""

    exit_code = 130
    without_prefix = True


R = TypeVar("R")


def attempt(action: Callable[[], R]) -> tuple[R | None, Exception | None]:
    """Return the result of an action or its error, that of a bug too: its thread must not end."""
    try:
        return action(), None
    except Exception as error:  # noqa: BLE001 -- the caller reports it
        return None, error
