"""The client: what runs on a cluster, as one user."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import cached_property
from subprocess import CompletedProcess
from threading import Event
from typing import TYPE_CHECKING, Literal, Self, overload

from kubectl_sky.actions import identity
from kubectl_sky.actions.config import preferences
from kubectl_sky.api.logs import LogLines
from kubectl_sky.api.notes import LOG, Notes, Report
from kubectl_sky.api.table import Table
from kubectl_sky.api.task import Manifests, Task
from kubectl_sky.api.volumes import Volumes
from kubectl_sky.cluster import exec as programs
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.exec import FirstBytes, Pipes
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import Problem, UserError
from kubectl_sky.observe.endpoints import Port
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.observe.verdict import Diagnosis
from kubectl_sky.spec.dangers import Danger
from kubectl_sky.submitting.submit import DryRun, Options
from kubectl_sky.submitting.submit import submit as submit_task
from kubectl_sky.tasks import (
    cp,
    deletion,
    describe,
    doctor,
    find,
    multikueue,
    pipeline,
    ports,
    stop,
)
from kubectl_sky.tasks import exec as executing
from kubectl_sky.tasks import follow as following
from kubectl_sky.tasks import logs as reading
from kubectl_sky.tasks.doctor import ClusterCheck
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.list import list_tasks
from kubectl_sky.tasks.logs import LogRequest
from kubectl_sky.tasks.pending import explain_target
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import Wait

if TYPE_CHECKING:
    from kubectl_sky.api.services import Services
    from kubectl_sky.gpus.hours import Usage
    from kubectl_sky.gpus.model import AcceleratorNode

_MAX_OUTPUT = 16 << 20  # bytes of stdout, and of stderr


@dataclass(frozen=True, kw_only=True)
class Client:
    """A connection to a cluster, and whose tasks it sees. Several threads may share it.

    The arguments are those of the command line; None means that the kubeconfig decides. `user` is
    the owner of tasks and volumes; None means that of `auth login`, then your cluster identity.
    `request_timeout` is in seconds. Connecting sends nothing: the first request does.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    certificate_authority: str | None = None
    as_user: str | None = None
    request_timeout: float | None = None
    server_url: str | None = None
    user: str | None = None
    all_users: bool = False
    all_namespaces: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections; the next request opens new ones."""
        if "_session" in vars(self):
            self._session.close()

    @overload
    def submit(self, task: Task, *, dry_run: Literal["none"] = "none") -> "Submission": ...

    @overload
    def submit(self, task: Task, *, dry_run: Literal["client", "server"]) -> Manifests: ...

    def submit(self, task: Task, *, dry_run: DryRun = "none") -> "Submission | Manifests":
        """Submit a task, pipeline or group; return when everything is sent, local files included.

        A dry run returns the manifests, without the values of secrets: "client" only renders them,
        "server" also lets the cluster check them. Raises InvalidFiles with every problem of the
        task, and ClusterError; what was sent is deleted again then.
        """
        report = Report()
        connections = [self._connection]

        def connect(connection: Connection) -> Session:
            connections.append(connection)  # the task may choose the context
            return self._connect(connection)

        options = Options(
            task.source(), self._connection, user=self.user, dry_run=dry_run, follow=False
        )
        submit_task(options, report, connect)
        if report.manifests:
            return Manifests.of(report.manifests)
        assert report.result
        return Submission(
            id=report.result.id,
            task_ids=tuple(plan.id for plan in report.result.decision.plans),
            unchanged=report.result.unchanged,
            notes=tuple(report.notes_),
            warnings=tuple(report.warnings),
            dangers=tuple(report.dangers),
            client=self._in_context(connections[-1].context),
        )

    def list(self) -> Table[TaskStatus]:
        """Return your tasks, newest first."""
        return Table(list_tasks(self._session, self._scope).tasks)

    def status(self, task: str) -> TaskStatus | PipelineStatus:
        """Return the state of a task and its nodes, or that of a pipeline or group.

        Here and below, `task` is an id, a prefix of an id, or a name. Raises UnknownName.
        """
        return explain_target(self._session, find.get(self._session, self._scope, task))

    def logs(
        self,
        task: str,
        *,
        follow: bool = False,
        ranks: Collection[int] = (),
        tail: int | None = None,
        since: float | None = None,
        start_timeout: float = 300.0,
    ) -> LogLines:
        """Yield the log lines of a task's nodes: the last `tail` of each, of the last seconds.

        With `follow`, the lines of all nodes as they come, until the task has finished. If it
        failed, TaskFailed is raised after the last line. `start_timeout` limits the seconds until
        the first node runs.
        """
        since_seconds = None if since is None else max(int(since), 1)
        options = LogOptions(
            follow=follow,
            tail=tail,
            since_seconds=since_seconds,
            timestamps=True,
        )
        session, target = multikueue.locate(self._session, self._scope, task)

        def read(ui: UI, stop: Event) -> None:
            request = LogRequest(
                options, ranks=tuple(ranks), start_timeout=start_timeout, stop=stop
            )
            if follow:
                following.follow(session, target, request, ui)
                return
            missing = []
            for item in find.tasks_of(target):
                missing += reading.show(session, [item], request, ui)
            if missing:
                raise missing[0]

        return LogLines(read)

    def wait(
        self,
        task: str,
        *,
        timeout: float | None = None,
        resume: bool = False,
        stop: Event | None = None,
    ) -> TaskStatus | PipelineStatus:
        """Wait until a task, pipeline or group has completed, and return its final state.

        With `resume`, resume each stage of a pipeline when the one before it has completed, and
        stop the other nodes of a failed task: plain Kubernetes has no controller that does.
        `timeout` is in seconds. Raises TaskFailed if the task failed, and SkyError at the timeout,
        or soon after `stop` is set.
        """
        target = find.get(self._session, self._scope, task)
        lost_after = preferences().lost_after if resume else None
        wait = Wait(timeout, leads=resume, node_lost_after=lost_after, stop=stop or Event())
        (finished,) = pipeline.wait_for_all(self._session, [target], wait, Notes())
        following.check_outcome(self._session, finished)
        return finished

    def stop(self, task: str, *, wait: bool = True) -> tuple[TaskStatus, ...]:
        """Stop a task, or all tasks of a pipeline or group, and delete their objects with the logs.

        Returns the tasks as they were before, when their pods are gone. Raises ClusterError if they
        are not after 30 seconds: it says what keeps them. Without `wait`, the deletion only begins.
        """
        tasks = find.get_tasks(self._session, self._scope, [task])
        for text in stop.stop(self._session, tasks):
            LOG.warning("%s", text)
        if wait and (remaining := multikueue.wait_until_gone(self._session, tasks)):
            raise deletion.still_deleting(remaining)
        return tuple(tasks)

    @overload
    def doctor(self, task: None = None) -> ClusterCheck: ...

    @overload
    def doctor(self, task: str) -> Diagnosis: ...

    def doctor(self, task: str | None = None) -> Diagnosis | ClusterCheck:
        """Explain why a task does not start or has failed; without a task, check the cluster.

        Of a pipeline or group, it explains the task that failed or that the others wait for.
        """
        if task is None:
            return doctor.check_cluster(self._session)
        session, target = multikueue.locate(self._session, self._scope, task)
        current = target.current if isinstance(target, PipelineStatus) else target
        return doctor.diagnose(session, current)

    def gpus(self) -> Table["AcceleratorNode"]:
        """Return the cluster nodes that have GPUs, and how many are free."""
        from kubectl_sky.gpus import action  # noqa: PLC0415 -- a slice, which can be removed

        return Table(action.accelerators(self._session))

    def usage(self, *, days: float = 30.0, by: Literal["user", "name", "gpu"] = "user") -> "Usage":
        """Return the GPU-hours of your tasks."""
        from kubectl_sky.gpus import action  # noqa: PLC0415

        return action.usage(self._session, self._scope, timedelta(days=days), by)

    def exec(
        self,
        task: str,
        command: Sequence[str],
        *,
        rank: int = 0,
        stdin: bytes = b"",
        timeout: float | None = None,
        stop: Event | None = None,
    ) -> CompletedProcess[str]:
        """Run a program in a node of a task, with the variables of `run`; return how it ended.

        The result is that of `subprocess.run`: `returncode`, `stdout`, `stderr`, and
        `check_returncode()`. Raises TimedOut after `timeout` seconds, and ClusterError if it prints
        more than 16 MiB. Setting `stop` ends the call soon, not the program.
        """
        if isinstance(command, str):
            raise TypeError(
                f'the command is a list of words: {command.split()}; or ["sh", "-c", {command!r}]'
            )
        session, match = multikueue.locate_task(self._session, self._scope, task)
        node = executing.node_of_rank(match, rank)
        program = executing.task_environment(session, match).program(node, command)
        out, err = (FirstBytes(_MAX_OUTPUT, _MAX_OUTPUT) for _ in range(2))
        blocks = [stdin] if stdin else None
        pipes = Pipes(stdin=blocks, stdout=out, stderr=err, seconds=timeout, stop=stop)
        code = programs.run(session, program, pipes)
        texts = (sink.data.decode(errors="replace") for sink in (out, err))
        return CompletedProcess(list(command), code, *texts)

    def cp(self, source: str, target: str, *, rank: int = 0) -> None:
        """Copy a file or folder to or from a node: one of the paths is `TASK:PATH`."""
        paths = cp.parse_paths(source, target)
        cp.copy(self._session, self._scope, paths, rank, Notes())

    def read_task(self, task: str) -> Task:
        """Return a task, pipeline or group as the cluster keeps it, without values of secrets.

        Its local files are not kept: a submit uploads them as they are then. Raises UserError if
        its file is too long to be kept.
        """
        target = find.get(self._session, self._scope, task)
        text = describe.task_file(self._session, target)
        if text is None:
            raise UserError(f"the cluster keeps no file of task {target.id}", "submit its file")
        return Task.from_yaml(f"{text}\n")

    def ports(self, task: str) -> tuple[Port, ...]:
        """Return the exposed ports of a task: `port`, and `address` and `outside` as HOST:PORT.

        Raises UserError if it exposes none.
        """
        target = find.get(self._session, self._scope, task)
        exposed = ports.list_exposed(self._session, target)
        return tuple(port for item in exposed for port in item.ports)

    @property
    def serve(self) -> "Services":
        """The services: create, update, list and delete them."""
        from kubectl_sky.api.services import Services  # noqa: PLC0415 -- of a slice

        return Services(self._connection, self._connect, self._session, self._scope, self.user)

    @property
    def volumes(self) -> Volumes:
        """The volumes: create, list and delete them."""
        return Volumes(self._session, self._scope, self.user)

    def _in_context(self, context: str | None) -> Self:
        return self if context == self.context else replace(self, context=context)

    @cached_property
    def _connection(self) -> Connection:
        connection = Connection(
            **{name: getattr(self, name) for name in _CONNECTION if getattr(self, name) is not None}
        )
        return identity.find_configured(connection, self.user)

    @cached_property
    def _session(self) -> Session:
        return Session.connect(self._connection)

    def _connect(self, connection: Connection) -> Session:
        """Return the session with the cluster of a task, which may choose another context."""
        return self._session if connection == self._connection else Session.connect(connection)

    @cached_property
    def _scope(self) -> Scope:
        namespace = None if self.all_namespaces else self._session.namespace
        user = None if self.all_users else identity.user(self._session, self.user)
        return Scope(namespace, user)


# The fields of a client that are also those of a connection.
_CONNECTION = sorted({item.name for item in fields(Client)} & set(Connection.__struct_fields__))


@dataclass(frozen=True)
class Submission:
    """A task, pipeline or group that was submitted."""

    id: str
    task_ids: tuple[str, ...]  # of its tasks
    unchanged: bool  # whether an earlier submit had sent everything
    notes: tuple[str, ...]  # as the command line prints them
    warnings: tuple[Problem, ...]
    dangers: tuple[Danger, ...]
    client: Client = field(repr=False, compare=False)

    def status(self) -> TaskStatus | PipelineStatus:
        """Return the state, as `Client.status` does."""
        return self.client.status(self.id)

    def logs(self, *, follow: bool = True) -> LogLines:
        """Yield the log lines, as `Client.logs` does; by default until the end."""
        return self.client.logs(self.id, follow=follow)

    def wait(
        self, *, timeout: float | None = None, stop: Event | None = None
    ) -> TaskStatus | PipelineStatus:
        """Wait until it has completed, and resume the stages of a pipeline, as `Client.wait`."""
        return self.client.wait(self.id, timeout=timeout, resume=True, stop=stop)

    def stop(self, *, wait: bool = True) -> None:
        """Stop it and delete its objects, as `Client.stop` does."""
        self.client.stop(self.id, wait=wait)
