"""Render the manifests of a plan, in the order in which they are sent."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import yaml
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import UserError
from kubectl_sky.plan.plan import Plan
from kubectl_sky.plan.pvc import Pvc
from kubectl_sky.render import pod_config, writer
from kubectl_sky.words import assets, names
from kubectl_sky.words.kinds import SECRET, kind_of
from kubectl_sky.words.secret import REDACTED, Secret
from kubectl_sky.workloads import registry


def engine(overrides: Path | None = None) -> jinja2.Environment:
    """Return the environment that loads the built-in templates.

    A template in the folder `overrides` replaces the built-in template of the same name. Raises
    UserError if that folder does not exist, or replaces no template.
    """
    if overrides is not None:
        if not overrides.is_dir():
            raise UserError(f"--templates {overrides}: no such folder")
        built_in = {path.name for path in assets.folder("templates").glob("*.j2")}
        if built_in.isdisjoint(path.name for path in overrides.iterdir()):
            raise UserError(
                f"--templates {overrides}: no file has the name of a built-in template",
                "such as job.yaml.j2 or _pod.yaml.j2",
            )
    return _environment(overrides)


@cache
def _environment(folder: Path | None) -> jinja2.Environment:
    """Return the environment that loads templates of a folder, and built-in ones.

    Templates are compiled once per process, which takes 30 ms. Compiled templates are code, so they
    are not written to disk.
    """
    loaders: list[jinja2.BaseLoader] = [jinja2.FunctionLoader(_source)]
    if folder is not None:
        loaders.insert(0, jinja2.FileSystemLoader(folder))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        finalize=writer.write,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # templates do not change while a task is rendered
    )

    environment.filters.update(
        block=writer.block,
        base64=writer.b64,
        fields=writer.fields,
        nest=writer.nest,
    )
    return environment


def _source(name: str) -> tuple[str, str | None, Callable[[], bool]] | None:
    try:
        return assets.read("templates", name), name, lambda: True
    except FileNotFoundError:
        return None


class Manifest(Struct, frozen=True):
    """One Kubernetes object: as text for people, and as a value for the API."""

    text: str
    object: dict[str, Any]

    @property
    def name(self) -> str:
        """The object's kind and name for messages, such as `Job/train-abc`."""
        return f"{self.object['kind']}/{self.object['metadata']['name']}"

    @property
    def is_secret(self) -> bool:
        return kind_of(self.object) == SECRET


class Manifests(Struct, frozen=True):
    """The objects of a task: its workload, and the objects that the workload needs.

    `shared` holds files that other tasks may use too.
    """

    shared: tuple[Manifest, ...]
    auxiliary: tuple[Manifest, ...]
    workload: tuple[Manifest, ...]

    @property
    def runtimes(self) -> tuple[Manifest, ...]:
        """The ConfigMaps with the scripts that run tasks."""
        return tuple(
            manifest
            for manifest in self.shared
            if names.RUNTIME in manifest.object["metadata"].get("labels", {})
        )

    @property
    def without_runtime(self) -> "Manifests":
        """The objects without the scripts that run tasks."""
        runtimes = self.runtimes
        return replace(self, shared=tuple(item for item in self.shared if item not in runtimes))

    @property
    def own(self) -> tuple[Manifest, ...]:
        return self.auxiliary + self.workload

    @property
    def all(self) -> tuple[Manifest, ...]:
        """All objects, in the order in which they are sent."""
        return self.shared + self.own


class Budget:
    """The bytes that manifests may still have."""

    def __init__(self, limit: int = sys.maxsize) -> None:
        self._limit = self._remaining = limit

    def spend(self, manifest: Manifest) -> Manifest:
        """Count a manifest. Raises UserError over the limit."""
        self._remaining -= len(manifest.text.encode())
        if self._remaining < 0:
            what = f"the manifests are larger than {self._limit:,} bytes"
            raise UserError(what, "use fewer nodes, or the backend indexed: one Job for all nodes")
        return manifest


def render(plan: Plan, templates: Path | None = None, budget: Budget | None = None) -> Manifests:
    """Render a plan; the same plan gives the same bytes.

    `templates` is a folder with the user's own templates. Raises UserError over the budget.
    """
    budget = budget or Budget()
    environment = engine(templates)
    backend = registry.find(plan.backend)
    context: dict[str, object] = {"plan": plan, "backend": backend.template_values(plan)}

    task_file = writer.task_file(plan.task_file)
    optional: dict[str, object] = {
        "secret.yaml.j2": plan.secrets,
        "registry.yaml.j2": plan.login,
        "credentials.yaml.j2": plan.file_transfer.secret,
        "service.yaml.j2": plan.service,
        "gang.yaml.j2": plan.gang,
    }

    auxiliary = [
        _manifest(environment, name, plan=plan, task_file=task_file)
        for name in ("configmap.yaml.j2", *filter(optional.get, optional), *plan.extras.templates)
    ]
    if plan.ports:
        auxiliary.append(
            _manifest(environment, "ports.yaml.j2", plan=plan, first=backend.rank0_selector)
        )
    if backend.companion_kind:
        auxiliary.append(_manifest(environment, backend.companion_template, **context))
    auxiliary += [_manifest(environment, "pvc.yaml.j2", pvc=item) for item in plan.storage.new_pvcs]

    runtimes = [plan.runtime] if plan.runtime else []
    return Manifests(
        shared=(
            *(_manifest(environment, "runtime.yaml.j2", runtime=item) for item in runtimes),
            *(
                _manifest(environment, "files.yaml.j2", config_map=config_map)
                for config_map in plan.file_transfer.config_maps
            ),
        ),
        auxiliary=tuple(auxiliary),
        workload=tuple(
            budget.spend(
                _change(_manifest(environment, backend.template, **context, node=node), plan)
            )
            for node in backend.pods(plan)
        ),
    )


def merge(parts: Sequence[Manifests]) -> Manifests:
    """Return the objects of several tasks, in order and without duplicates."""
    return Manifests(
        shared=_once(manifest for part in parts for manifest in part.shared),
        auxiliary=_once(manifest for part in parts for manifest in part.auxiliary),
        workload=tuple(manifest for part in parts for manifest in part.workload),
    )


def _once(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    by_name: dict[str, Manifest] = {}
    for manifest in manifests:
        by_name.setdefault(manifest.name, manifest)
    return tuple(by_name.values())


def pvc(claim: Pvc, templates: Path | None = None) -> Manifest:
    return _manifest(engine(templates), "pvc.yaml.j2", pvc=claim)


def render_template(folder: Path, name: str, **values: object) -> Manifest:
    """Render a template of another package's folder, which users cannot replace."""
    return _manifest(_environment(folder), name, **values)


def redact(plan: Plan) -> Plan:
    hidden = Secret(REDACTED)
    login = plan.login and replace(plan.login, username=hidden, password=hidden)
    file_transfer = replace(
        plan.file_transfer, secret=dict.fromkeys(plan.file_transfer.secret, hidden)
    )
    extras = replace(plan.extras, certificate=dict.fromkeys(plan.extras.certificate, hidden))
    return replace(
        plan,
        secrets=dict.fromkeys(plan.secrets, hidden),
        login=login,
        file_transfer=file_transfer,
        extras=extras,
    )


def as_yaml(manifests: Iterable[Manifest]) -> str:
    """Return a YAML stream of documents for `kubectl apply -f -`."""
    return "---\n".join(manifest.text for manifest in manifests)


def as_json(manifests: Iterable[Manifest]) -> str:
    """Return a JSON List, as kubectl prints several objects."""
    items = [manifest.object for manifest in manifests]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4) + "\n"


def _change(manifest: Manifest, plan: Plan) -> Manifest:
    """Merge the user's pod_config into the manifest; its text loses its comments."""
    if not plan.pod_options.pod_config:
        return manifest
    value = pod_config.apply(manifest.object, plan.pod_options.pod_config)
    return Manifest(writer.document(value), value)


def _manifest(environment: jinja2.Environment, name: str, **context: object) -> Manifest:
    try:
        text, has_secret = writer.unseal(environment.get_template(name).render(context))
        text = writer.comment(text)
        value = yaml.load(text, Loader=yaml.CSafeLoader)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        raise UserError(f"template {name}{f':{line}' if line else ''}: {error}") from error
    except yaml.YAMLError as error:
        raise UserError(f"template {name} does not give YAML: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"template {name} is not UTF-8") from error
    except (ArithmeticError, RecursionError) as error:  # from what a template computes or includes
        raise UserError(f"template {name}: {error}") from error

    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("name") or "kind" not in value:
        raise UserError(f"template {name} gives no object with kind and metadata.name")

    if has_secret and kind_of(value) != SECRET:
        raise UserError(
            f"template {name} writes a secret's value into a {value['kind']}",
            "only a Secret may hold it; pods refer to it by secretKeyRef",
        )

    if kind_of(value) is None:
        message = f"template {name} gives a {value['kind']}, which is not sent by this program"
        raise UserError(message)
    return Manifest(text.removesuffix("\n") + "\n", value)
