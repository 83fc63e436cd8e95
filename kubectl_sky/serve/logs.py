"""`serve logs`: write the logs of the replicas of a service."""

from collections.abc import Iterator
from threading import Event

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.session import Session
from kubectl_sky.cluster.streams import Following, LogOptions, LogSource
from kubectl_sky.errors import UserError
from kubectl_sky.observe import nodes
from kubectl_sky.observe.logs import Origin
from kubectl_sky.serve import action
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import names
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.task_objects import ServiceObject

_POLL_SECONDS = 2.0


def show(
    session: Session,
    deployment: ServiceObject,
    options: LogOptions,
    replica: int | None,
    ui: UI,
    stop: Event | None = None,
) -> None:
    """Write the logs; with `follow` until Ctrl-C or `stop`, also of replicas that start later.

    A `replica` is a number of `serve status`. Raises UserError if it is not found, and
    KubeletUnreachable at the end if the log of one is missing.
    """
    replicas = _Replicas(session, deployment, options.follow, replica)
    ui.notes(() if options.follow else replicas.not_started())

    with Following(session, options) as following:
        parallel.run_daemon(following.add_all, replicas.sources())
        try:
            for block in following.blocks():
                if stop and stop.is_set():
                    return
                if block and block.note:
                    ui.note(block.note)
                elif block:
                    origins = {source.stream: replicas.origin(source) for source in block.last}
                    lines = [(origins[source.stream], line) for source, line in block.lines]
                    ui.logs(lines, block.final_newline)
        finally:
            replicas.stop.set()
    if following.incomplete:
        raise following.incomplete[0]


class _Replicas:
    """The pods of a service, by numbers: those of `serve status`, then those that start later."""

    def __init__(
        self, session: Session, deployment: ServiceObject, follow: bool, replica: int | None
    ) -> None:
        self.stop = Event()
        self._session = session
        self._deployment = deployment
        self._name = deployment.metadata.name
        self._follow = follow
        pods = action.pods(session, deployment)
        if replica is not None and replica >= len(pods):
            hint = f"see `kubectl sky serve status {self._name}`"
            raise UserError(f'replica {replica} of service "{self._name}" not found', hint)
        numbers = range(len(pods)) if replica is None else (replica,)
        self._pods = [pods[number] for number in numbers]
        self._numbers = {pods[number].metadata.name: number for number in numbers}
        self._single = replica is not None or (len(pods) == 1 and not follow)
        self._later = replica is None

    def not_started(self) -> Iterator[str]:
        """Yield a note on each replica without a log."""
        for pod in self._pods:
            if not _has_started(pod):
                yield f"replica-{self._numbers[pod.metadata.name]} has not started"

    def sources(self) -> Iterator[list[LogSource]]:
        """Yield the logs; to follow, those of new pods too, until `stop` is set."""
        while True:
            sources = []
            for pod in filter(_has_started, self._pods):
                namespace = pod.metadata.namespace
                name = pod.metadata.name
                number = self._numbers.setdefault(name, len(self._numbers))
                title = f"replica-{number}"
                sources.append(LogSource(namespace, name, names.CONTAINER, number, title=title))
            yield sources
            if not self._follow or self.stop.wait(_POLL_SECONDS):
                return
            pods = action.pods(self._session.patient(self.stop), self._deployment)
            self._pods = [pod for pod in pods if self._later or pod.metadata.name in self._numbers]

    def origin(self, source: LogSource) -> Origin:
        title = f"replica-{source.rank}"
        prefix = "" if self._single else title
        return Origin(self._name, source.rank, title, source.pod, prefix)


def _has_started(pod: Pod) -> bool:
    return nodes.container(pod).has_run
