"""`render`: build the manifests of submit without a cluster."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.provenance import Origins, with_origins
from kubectl_sky.render import manifests
from kubectl_sky.render.manifests import Manifests, redact
from kubectl_sky.submitting import taskfile
from kubectl_sky.submitting.decisions import log_decisions
from kubectl_sky.submitting.taskfile import TaskFile
from kubectl_sky.tasks.ui import UI
from kubectl_sky.words import names, owners, private, settings
from kubectl_sky.words.facts import Facts
from kubectl_sky.workloads.decide import Decision, decide


def offline_facts(user: str | None, namespace: str | None, environ: Mapping[str, str]) -> Facts:
    """Return the facts without a cluster.

    An empty namespace leaves the choice to kubectl.
    """
    name = user or settings.read_login(environ) or settings.system_user()
    return Facts(user=owners.name_owner(name), namespace=namespace or "")


def render_files(
    sources: Sequence[taskfile.Source],
    facts: Facts,
    ui: UI,
    show_secrets: bool = False,
    explain: bool = False,
) -> Manifests:
    """Read task files and render their manifests. Raises InvalidFiles with all problems."""
    rendered = []
    for task_file in taskfile.prepare_all(sources, ui):
        decision = decide(task_file.entries, facts, task_file.settings)
        plans = tuple(map(_without_revision, decision.plans))  # manifests in git would change it
        decision = replace(decision, plans=plans)
        log_decisions(task_file, decision)
        ui.notes((*task_file.remarks, *decision.notes))
        if after := task_file.after:
            ui.note(f"the manifests do not wait: submit the file with --after {after}")
        if explain and any(task.kubernetes.pod for task in task_file.tasks):
            ui.note("config.kubernetes.pod_config: objects that it changes are not annotated")
        rendered.append(render(task_file, decision, show_secrets, explain))
    return manifests.merge(rendered)


def _without_revision(plan: Plan) -> Plan:
    annotations = {key: plan.annotations[key] for key in plan.annotations if key != names.REVISION}
    return replace(plan, annotations=annotations)


def render(
    task_file: TaskFile, decision: Decision, show_secrets: bool, explain: bool = False
) -> Manifests:
    """Render the manifests; secret values are redacted unless `show_secrets` is set.

    `explain` annotates each line with the field of the file that it comes from.
    """
    plans = decision.plans if show_secrets else tuple(map(redact, decision.plans))
    if explain:
        settings = task_file.settings
        plans = tuple(
            with_origins(plan, Origins(entry.document, placement.resources, settings))
            for entry, placement, plan in zip(
                task_file.entries, decision.placements, plans, strict=True
            )
        )
    return task_file.render(plans)


def write(rendered: Manifests, folder: Path, form: str = "yaml") -> list[Path]:
    """Write one file per object, as YAML or JSON, numbered in apply order; return the paths.

    Files with Secrets and a newly created folder are readable only by the current user.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

        written = []
        for number, manifest in enumerate(rendered.all):
            name = re.sub(r"[^a-z0-9.-]", "-", manifest.name.lower())
            path = folder / f"{number:02}-{name}.{form}"
            mode = 0o600 if manifest.is_secret else 0o644
            text = json.dumps(manifest.object, indent=4) + "\n" if form == "json" else manifest.text
            private.replace(path, text.encode(), mode)
            written.append(path)
    except OSError as error:
        raise UserError(
            f"--output-dir {folder}: {(error.strerror or str(error)).lower()}"
        ) from error
    return written
