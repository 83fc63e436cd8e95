"""`diff`: show what a submit would change of a task in the cluster."""

import io
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from kubectl_sky.actions import contexts, find, gather, preflight, taskfile
from kubectl_sky.actions.find import Scope
from kubectl_sky.actions.taskfile import Source
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster import objects, parallel
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, NotFound, UnknownName, UserError
from kubectl_sky.observe import difference
from kubectl_sky.observe.difference import Pair
from kubectl_sky.observe.pipelines import pipelines
from kubectl_sky.words.owners import User
from kubectl_sky.workloads.decide import Decision, decide

EXTERNAL = "KUBECTL_EXTERNAL_DIFF"
_SUFFIX = "-diff"  # of the name of an object that a dry run creates
_MAX_NAME = 50


def diff(source: Source, connection: Connection, user: str | None, ui: UI) -> list[Pair]:
    """Return the objects of the task in the cluster beside those that a submit would send.

    The task is that of `--id`, or the newest one with the file's name. Raises SkyError.
    """
    content = source.stdin.read() if source.path == "-" else b""
    task_file, connection = contexts.choose(
        taskfile.prepare(replace(source, stdin=io.BytesIO(content)), ui), connection
    )
    session = Session.connect(connection)
    facts = gather.facts(session, task_file, user)
    decision = decide(task_file.entries, facts, task_file.settings)
    if not task_file.given_id:
        overrides = replace(source.overrides, task_id=_newest(session, decision, facts.user))
        again = replace(source, overrides=overrides, stdin=io.BytesIO(content))
        task_file, _ = contexts.choose(taskfile.prepare(again, UI()), connection)
        decision = decide(task_file.entries, facts, task_file.settings)
    rendered = task_file.render(decision.plans).without_runtime
    manifests, live = preflight.as_first_sent(session, decision, rendered)
    if not live:
        raise UnknownName(f'task "{decision.id}" not found in namespace "{session.namespace}"')
    by_name = {_key(item): item for item in live}
    desired = [manifest.object for manifest in manifests.all]
    for item in manifests.shared:
        with suppress(NotFound):
            by_name[_key(item.object)] = _get(session, item.object)
    removed = [item for key, item in by_name.items() if key not in set(map(_key, desired))]
    comparison = _Comparison(session, ui)
    pairs = parallel.map_parallel(
        lambda item: comparison.pair(by_name.get(_key(item)), item), desired
    )
    return [*pairs, *(difference.pair(item, None) for item in removed)]


def _key(item: Json) -> tuple[str, str]:
    return str(item["kind"]), str(item["metadata"]["name"])


def _get(session: Session, item: Json) -> Json:
    metadata = item["metadata"]
    return objects.get(
        session, objects.known_kind(item), metadata["name"], metadata.get("namespace")
    )


def _newest(session: Session, decision: Decision, owner: User) -> str:
    tasks = find.list_tasks(session, Scope(session.namespace, owner))
    candidates: Sequence[find.Target] = pipelines(tasks) if decision.together else tasks
    for candidate in candidates:
        if candidate.name == decision.title:
            return candidate.id
    where = f'in namespace "{session.namespace}" (owner: {owner.name})'
    raise UnknownName(
        f'{decision.word} "{decision.title}" not found {where}',
        "submit it, or name a task with --id",
    )


class _Comparison:
    """Compares objects; without a dry run, only the fields that are sent."""

    def __init__(self, session: Session, ui: UI) -> None:
        self._session = session
        self._ui = ui
        self._noted = False

    def pair(self, live: Json | None, desired: Json) -> Pair:
        """Return an object beside the one that the API server would make of a manifest."""
        try:
            return difference.pair(live, self._with_defaults(desired))
        except ClusterError as error:
            if not self._noted:
                self._noted = True
                self._ui.note(
                    f"warning: no server-side dry run: {error.what}; fields that only the cluster"
                    " has are left out"
                )
        shown = None if live is None else difference.project(desired, live)
        return difference.pair(shown, desired)

    def _with_defaults(self, desired: Json) -> Json:
        """Return a manifest with the defaults of the API server, by a dry run of its creation.

        It has another name: the API server refuses an existing name, and changes of a Job.
        """
        metadata = desired["metadata"]
        other = {**metadata, "name": metadata["name"][:_MAX_NAME].rstrip("-.") + _SUFFIX}
        created = objects.create(self._session, {**desired, "metadata": other}, dry_run=True)
        return {**created, "metadata": {**created["metadata"], "name": metadata["name"]}}


def run_external(pairs: Sequence[Pair], command: str, environ: Mapping[str, str]) -> int:
    """Run the program of KUBECTL_EXTERNAL_DIFF on two folders; return its exit code.

    Raises UserError if it cannot be run.
    """
    with tempfile.TemporaryDirectory(prefix="kubectl-sky-") as folder:
        paths = [Path(folder, name) for name in ("LIVE", "MERGED")]
        for path in paths:
            path.mkdir()
        for pair in pairs:
            for path, text in zip(paths, (pair.live, pair.merged), strict=True):
                if text:
                    (path / pair.name).write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [*shlex.split(command), *map(str, paths)], env=dict(environ), check=False
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UserError(f"{EXTERNAL}={command}: {reason.lower()}") from None
    return done.returncode
