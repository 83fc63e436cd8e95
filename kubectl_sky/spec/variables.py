"""Variables and secrets: envs, secrets with values, and existing Secrets that a task names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from kubectl_sky.errors import Problem
from kubectl_sky.spec.document import Data, Document, Path, entries, printable
from kubectl_sky.spec.schema import describe
from kubectl_sky.spec.volumes import wrong_path
from kubectl_sky.words.secret import REDACTED, Secret, reveal

_SCOPES = ("personal.", "workspace.", "global.")  # of SkyPilot's API server; not distinguished here
REFERENCE = "secrets:"  # prefix of the names of secrets that SkyPilot's API server stores
_SECRET_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_NAME = 253
MOUNT_PATH = "mount_path"


class SecretReference(Struct, frozen=True):
    """An existing Secret: a variable with its name, or a file if `path` is set.

    `key` is the name as the user wrote it, `name` is the Secret's name. `field` is the field that
    messages name.
    """

    key: str
    path: str | None = None
    field: str = "secrets"

    @property
    def name(self) -> str:
        """The name of the Secret in Kubernetes: `hf-token` for `HF_TOKEN`."""
        return self.key.lower().replace("_", "-")


def existing_secrets(data: Mapping[str, Any]) -> tuple[SecretReference, ...]:
    secrets = data.get("secrets")
    given_names = {str(name) for name in secrets} if isinstance(secrets, Mapping) else set()
    existing = [SecretReference(_bare(name)) for name in secrets or () if is_reference(name)]

    for item in data.get("managed_secrets") or ():
        if isinstance(item, str):
            existing.append(SecretReference(_bare(item), None, "managed_secrets"))
            continue
        for name, value in item.items():
            path = (value or {}).get(MOUNT_PATH)
            existing.append(SecretReference(_bare(name), path, "managed_secrets"))

    return tuple(
        dict.fromkeys(
            reference
            for reference in existing
            if reference.path or reference.key not in given_names
        )
    )


def secret_names(document: Document) -> frozenset[str]:
    """Return the variables whose values are secrets and must not be shown.

    The values are in the task or in the cluster.
    """
    names = {name for _, name, mounted in _all_secrets(document) if not mounted}
    login_names = {name for name, _ in entries(document.get("envs"))}.intersection(REGISTRY)
    return frozenset(names | login_names)


def is_reference(name: Data) -> bool:
    return isinstance(name, str) and name.startswith((REFERENCE, *_SCOPES))


def _bare(name: str) -> str:
    """Return the name without prefixes: `secrets:personal.TOKEN` is TOKEN."""
    name = name.removeprefix(REFERENCE)
    scope = next((scope for scope in _SCOPES if name.startswith(scope)), "")
    return name.removeprefix(scope)


def list_given_secrets(secrets: Data) -> dict[Data, Data]:
    if not isinstance(secrets, dict):
        return {}
    return {name: value for name, value in secrets.items() if not is_reference(name)}


def unnameable_secrets(document: Document) -> Iterator[tuple[Path, str, str]]:
    """Yield the path, reason and hint of each secret with an invalid name."""
    existing = dict(secret_references(document))
    for path, name, mounted in _all_secrets(document):
        letters = "letters, digits and _, no digit first"
        if not mounted and not is_name(name):
            yield path, "no variable can be called this", letters
        elif path in existing and (
            not _SECRET_NAME.fullmatch(existing[path]) or len(existing[path]) > _MAX_NAME
        ):
            reason = f'no Secret can be called "{printable(existing[path])}"'
            yield path, reason, "use letters, digits, - and .; a letter or digit first and last"


def _all_secrets(document: Document) -> Iterator[tuple[Path, str, bool]]:
    secrets = document.get("secrets")
    managed = document.get("managed_secrets")
    for key in secrets if isinstance(secrets, dict) else ():
        name = str(key)
        variable = _bare(name) if is_reference(name) else name
        yield ("secrets", name), variable, False
    for index, item in enumerate(secrets if isinstance(secrets, list) else []):
        yield ("secrets", index), _bare(str(item)), False
    for index, item in enumerate(managed if isinstance(managed, list) else []):
        if isinstance(item, str):
            yield ("managed_secrets", index), _bare(item), False
        for name, value in entries(item):
            mounted = isinstance(value, dict) and bool(value.get(MOUNT_PATH))
            yield ("managed_secrets", index, name), _bare(name), mounted


def secret_references(document: Document) -> Iterator[tuple[Path, str]]:
    for path, name, _ in _all_secrets(document):
        written = document.get(*path) if isinstance(path[1], int) else path[1]
        if path[0] == "managed_secrets" or is_reference(written):
            yield path, SecretReference(name).name


def _secret_paths(document: Document) -> Iterator[Problem]:
    managed = document.get("managed_secrets")
    targets = {
        path for field in ("volumes", "file_mounts") for path, _ in entries(document.get(field))
    }
    for index, item in enumerate(managed if isinstance(managed, list) else []):
        for name, value in entries(item):
            path = value.get(MOUNT_PATH) if isinstance(value, dict) else None
            if not isinstance(path, str):
                continue
            message = wrong_path(path) or ("another mount has this path" if path in targets else "")
            targets.add(path)
            if message:
                yield document.problem(("managed_secrets", index, name, MOUNT_PATH), message)


_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SERVER = re.compile(r"(https?://)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[!-~]*)?")

# Variables that describe the task to each node; any other value would be wrong. As in SkyPilot, the
# user's own SKYPILOT_TASK_ID and SKYPILOT_NUM_NODES win. Unlike in SkyPilot, SKYPILOT_NODE_IPS does
# not.
RESERVED = frozenset(
    {
        "JOB_COMPLETION_INDEX",
        "KUBECTL_SKY_ARRAY",
        "KUBECTL_SKY_CHANNEL",
        "KUBECTL_SKY_FILES",
        "KUBECTL_SKY_HOLD",
        "KUBECTL_SKY_HOSTS",
        "KUBECTL_SKY_KEEP",
        "KUBECTL_SKY_KEYS",
        "KUBECTL_SKY_LINKS",
        "KUBECTL_SKY_LOGS",
        "KUBECTL_SKY_MET",
        "KUBECTL_SKY_SERVICE",
        "KUBECTL_SKY_SLURM",
        "KUBECTL_SKY_START_DIRECTORY",
        "KUBECTL_SKY_SWEEP",
        "KUBECTL_SKY_TOKEN",
        "NODE_RANK",
        "NUM_NODES",
        "POD_IP",
        "SKYPILOT_CLUSTER_INFO",
        "SKYPILOT_JOB_RANK",
        "SKYPILOT_NODE_IPS",
        "SKYPILOT_NODE_RANK",
        "SKYPILOT_NUM_GPUS_PER_NODE",
        "SKYPILOT_NUM_JOBS",
        "SKYPILOT_USER",
    }
)

_MAX_VARIABLE = 128 * 1024 - 1  # bytes of name=value; Linux starts no program with a longer one
_MAX_TOTAL = 900_000  # bytes; a Secret is limited to 1 MiB, and etcd to 1.5 MiB per object

# The login to a private image registry.
REGISTRY = ("SKYPILOT_DOCKER_USERNAME", "SKYPILOT_DOCKER_PASSWORD", "SKYPILOT_DOCKER_SERVER")


def _mapping(document: Document, field: str) -> dict[Data, Data]:
    value = document.get(field)
    return value if isinstance(value, dict) else {}


def is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text))


def _names(document: Document) -> Iterator[Problem]:
    """Report invalid and reserved names of variables.

    The schema checks the names too, but misses a line break at the end. SkyPilot accepts any name
    for a secret; `refusals` reports the names that a variable cannot have.
    """
    for name in map(str, _mapping(document, "envs")):
        if not is_name(name):
            expected = "expected a variable's name: letters, digits and _, no digit first"
            yield document.problem(("envs", name), expected, key=True)
    for field in ("envs", "secrets"):
        for name in _mapping(document, field):
            if name is None or isinstance(name, bool):
                message = f'YAML reads this name as "{name}"; the variable has that name'
                yield document.problem(
                    (field, str(name)), message, "put it in quotes", "warning", key=True
                )
        for name in RESERVED.intersection(map(str, _mapping(document, field))):
            message = "ignored: every node sets its own value"
            yield document.unused((field, name), message, key=True)


def _references(document: Document) -> Iterator[Problem]:
    for name, value in entries(document.get("secrets")):
        if is_reference(name) and value is not None:
            prefix = next(start for start in (REFERENCE, *_SCOPES) if name.startswith(start))
            message = f"a name that begins with {prefix} refers to an existing secret"
            hint = f"remove the value, or write {printable(_bare(name))} as the name"
            yield document.problem(("secrets", name), message, hint)


def _values(document: Document) -> Iterator[Problem]:
    for field in ("envs", "secrets"):
        for name, value in _mapping(document, field).items():
            path = (field, str(name))
            node = document.node(path) if isinstance(value, Secret) else None
            if isinstance(value, dict | list) or (node and not node.text and len(value)):
                message = "the task gets this in Python's notation"
                hint = "write text, such as JSON in quotes"
                yield document.problem(path, message, hint, "warning")
            elif value is not None and "\0" in revealed(value):
                yield document.problem(path, "contains a NUL character")


def revealed(value: Data) -> str:
    """Return the text of a variable or secret, for checks that do not print it."""
    if isinstance(value, Secret):
        return reveal(value).decode()
    return "" if value is None else str(value)


def _sizes(document: Document) -> Iterator[Problem]:
    for field in ("envs", "secrets"):
        sizes = {
            str(name): len(f"{name}={revealed(value)}".encode(errors="replace"))
            for name, value in _mapping(document, field).items()
            if value is not None
        }
        hint = "put large values in a file: workdir, file_mounts or a volume"
        for name, size in sizes.items():
            if size > _MAX_VARIABLE:
                message = f"the variable has {size:,} bytes; the limit is {_MAX_VARIABLE:,}"
                yield document.problem((field, name), message, hint)

        total = sum(sizes.values())
        if total > _MAX_TOTAL:
            message = f"the variables have {total:,} bytes; the limit is {_MAX_TOTAL:,}"
            yield document.problem((field,), message, hint, key=True)


def _as_written(document: Document) -> Iterator[Problem]:
    """Warn if YAML 1.1 changes the text of a variable: `yes` is true, `0755` is 493."""
    for field in ("envs", "secrets"):
        node = document.root.child(field)
        for name, value in _mapping(document, field).items():
            value_node = node.child(name) if node else None
            if (
                value_node is None
                or value_node.value is not value
                or not value_node.text  # a map or a list
                or isinstance(value, str)
            ):
                continue

            if value is not None and revealed(value) != value_node.text:
                is_secret = isinstance(value, Secret)
                shown = " something else" if is_secret else f" {describe(str(value))}"
                message = f"YAML reads this as{shown}; the task gets that value"
                yield document.problem((field, str(name)), message, "put it in quotes", "warning")


def _both(document: Document) -> Iterator[Problem]:
    envs = _mapping(document, "envs")
    secrets = _mapping(document, "secrets")
    for name in envs.keys() & secrets.keys():
        message = "is also a secret; the secret's value is used"
        yield document.problem(("envs", str(name)), message, severity="warning", key=True)


# Names of variables that hold secrets, such as AWS_SECRET_ACCESS_KEY, HF_TOKEN and PGPASSWORD.
_SECRET_VARIABLE = re.compile(r".*(_KEY|TOKEN|PASSWORD|SECRET)", re.IGNORECASE)


def is_named_as_secret(name: str) -> bool:
    return bool(_SECRET_VARIABLE.fullmatch(name))


# More names, whose values are not shown: DB_PASS, API_KEYS, apiKey. Not MAX_TOKENS or KEYBOARD.
_HIDDEN_NAME = re.compile(
    r"(?:PASS|PASSWD|PASSWORD|PASSPHRASE|API_?KEYS?|CREDENTIALS?|SECRETS?|TOKEN|KEY)(?![A-Z])",
    re.IGNORECASE,
)
_LOGIN = re.compile(r"(?<=://)(?:[^\s/:@]{0,200}:[^\s'\"<>]{1,500}|[^\s/?#@]{1,500})@")  # of a URL


def mask(name: str, text: str) -> str:
    """Return the value of a variable or field without secrets: by its name, or the login of URLs.

    It is REDACTED if all of it may be a secret.
    """
    return REDACTED if _HIDDEN_NAME.search(name) else _LOGIN.sub(f"{REDACTED}@", text)


def _find_named_as_secrets(document: Document) -> Iterator[Problem]:
    hidden = secret_names(document)
    for name, value in entries(document.get("envs")):
        is_text = isinstance(value, str) and bool(value)
        if is_text and name not in hidden and is_named_as_secret(name):
            message = "looks like a secret, and everybody who may read pods can read envs"
            hint = f"move it to secrets: {{{name}: null}}; export {name}=…, then --secret {name}"
            yield document.problem(("envs", name), message, hint, "warning", key=True)


_REFERENCE_IN_VALUE = re.compile(r"\$(?:[A-Z_][A-Z0-9_]*\b|\{[A-Za-z_]\w*\})")


def _find_unsubstituted(document: Document) -> Iterator[Problem]:
    """Warn about variables in values of envs: the task gets them as they are written."""
    for name, value in entries(document.get("envs")):
        match = _REFERENCE_IN_VALUE.search(value) if isinstance(value, str) else None
        if match:
            message = f"{match[0]} is not substituted: values of envs are literal"
            hint = f"set {name} in run, such as: export {name}=…"
            yield document.problem(("envs", name), message, hint, "warning")


def _find_unsubstituted_secrets(document: Document) -> Iterator[Problem]:
    for name, value in entries(document.get("secrets")):
        text = reveal(value).decode(errors="replace") if isinstance(value, Secret) else value
        if isinstance(text, str) and _REFERENCE_IN_VALUE.fullmatch(text):
            message = "a variable is not substituted: values of secrets are literal"
            hint = f"write {name}: null; export {name}=…, then --secret {name}"
            yield document.problem(("secrets", name), message, hint, "warning")


def _registry(document: Document) -> Iterator[Problem]:
    fields = {name: field for field in ("envs", "secrets") for name in _mapping(document, field)}
    missing = [name for name in REGISTRY if name not in fields]
    for name in REGISTRY:
        if name in fields and missing:
            message = f"logs in to a registry only together with {' and '.join(missing)}"
            yield document.problem((fields[name], name), message, key=True)
    name = REGISTRY[2]
    server = document.get(fields.get(name, ""), name)
    if server is not None and not _SERVER.fullmatch(revealed(server)):
        hint = "such as ghcr.io or registry.example.com:5000"
        yield document.problem((fields[name], name), "expected a registry's address", hint)


SECRET_RULES = (_secret_paths,)
RULES = (
    _registry,
    _names,
    _references,
    _values,
    _sizes,
    _as_written,
    _both,
    _find_named_as_secrets,
    _find_unsubstituted,
    _find_unsubstituted_secrets,
)
