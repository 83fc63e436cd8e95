"""Services of a client: replicas behind one address."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from msgspec.structs import replace

from kubectl_sky.actions import identity
from kubectl_sky.api.logs import LogLines
from kubectl_sky.api.notes import Report
from kubectl_sky.api.table import Table
from kubectl_sky.api.task import Task
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import LogOptions
from kubectl_sky.errors import UserError
from kubectl_sky.serve import action, logs
from kubectl_sky.serve.model import ServiceStatus
from kubectl_sky.serve.update import update
from kubectl_sky.spec.service import Flags
from kubectl_sky.submitting.submit import Connect, Options
from kubectl_sky.tasks.deletion import still_deleting
from kubectl_sky.tasks.find import Scope
from kubectl_sky.tasks.ui import UI


@dataclass(frozen=True)
class Services:
    """The services of a client."""

    _connection: Connection = field(repr=False)
    _connect: Connect = field(repr=False)
    _session: Session = field(repr=False)
    _scope: Scope = field(repr=False)
    _user: str | None = None

    def up(
        self,
        task: Task,
        *,
        replicas: int | None = None,
        qps_metric: str | None = None,
        cpu_target: int | None = None,
        wait: bool = True,
    ) -> ServiceStatus:
        """Create the service of a task with the field `service`; return its status.

        `replicas` is a fixed number. Otherwise the file's minimum and maximum count, and the
        service scales by `qps_metric`, a metric of its pods (default: that of the settings), or by
        `cpu_target`, in percent of the requested CPUs. With `wait`, it returns when the replicas
        are ready. Raises NameTaken if the service exists, InvalidFiles, ClusterError, and
        TaskFailed if the replicas do not get ready in time: they stay.
        """
        flags = Flags(replicas, qps_metric, cpu_target)
        return self._send(action.up, task, flags, wait)

    def update(
        self,
        task: Task,
        *,
        replicas: int | None = None,
        qps_metric: str | None = None,
        cpu_target: int | None = None,
        wait: bool = True,
    ) -> ServiceStatus:
        """Replace a running service, replica by replica; the arguments are those of `up`.

        Replicas of the old version serve until new ones are ready. Raises UnknownName if there is
        no service of this name.
        """
        flags = Flags(replicas, qps_metric, cpu_target, new=False)
        return self._send(update, task, flags, wait)

    def list(self) -> Table[ServiceStatus]:
        """Return your services, newest first, without the events that explain their replicas."""
        scope = self._scope
        return Table(action.statuses(self._session, scope.namespace, scope.user))

    def status(self, name: str) -> ServiceStatus:
        """Return a service with its replicas, and why they are not ready. Raises UnknownName."""
        return action.status(self._session, action.find(self._session, self._scope.user, name))

    def logs(
        self,
        name: str,
        *,
        follow: bool = False,
        replica: int | None = None,
        tail: int | None = None,
        since: float | None = None,
    ) -> LogLines:
        """Yield the log lines of the replicas: the last `tail` of each, of the last seconds.

        `replica` is a number of `status(name).pods`. With `follow`, the lines also of replicas that
        start later, until `close()`. A line's `task` is the service, its `rank` the replica.
        """
        service = action.find(self._session, self._scope.user, name)
        seconds = None if since is None else max(int(since), 1)
        options = LogOptions(follow=follow, tail=tail, since_seconds=seconds, timestamps=True)

        def read(ui: UI, stop: Event) -> None:
            logs.show(self._session, service, options, replica, ui, stop)

        return LogLines(read)

    def down(self, name: str, *, wait: bool = True) -> None:
        """Delete a service: replicas, addresses and all other objects.

        Returns when its pods are gone. Raises UnknownName, and ClusterError if something still
        exists after 30 seconds. Without `wait`, the deletion only begins.
        """
        user = identity.user(self._session, self._user)
        items = action.find_to_delete(self._session, user, [name])
        action.delete(self._session, items)
        if wait and (remaining := action.wait_until_gone(self._session, items)):
            raise still_deleting(remaining)

    def _send(
        self,
        send: Callable[[Options, UI, Connect], ServiceStatus | None],
        task: Task,
        flags: Flags,
        wait: bool,
    ) -> ServiceStatus:
        source = task.source()
        overrides = source.overrides
        if overrides.backend not in (None, "rayservice"):
            raise UserError(f'backend "{overrides.backend}" is not supported', "use rayservice")
        flags = replace(flags, backend=overrides.backend or "service")
        source = replace(source, overrides=replace(overrides, backend=None), serve=flags)
        options = Options(source, self._connection, user=self._user, follow=wait)
        status = send(options, Report(), self._connect)
        assert status  # it is None for a dry run only
        return status
