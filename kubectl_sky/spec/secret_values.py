"""Values of secrets in a task file: they are Secret from load on, wherever the YAML shares them."""

from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_sky.spec import schema
from kubectl_sky.spec.document import Data, Document, Path, YamlNode
from kubectl_sky.spec.variables import MOUNT_PATH, is_reference, secret_names
from kubectl_sky.words.secret import Secret

_FIELDS = ("secrets", "managed_secrets")


def seal(document: Document) -> None:
    """Replace the values of secrets by Secret, also in fields that share them by an alias.

    The text of a value is that of a variable: 10 is "10", a map is in Python's notation.
    """
    tops = [node for node in _value_nodes(document) if node.value is not None]
    sealed = {id(node): Secret(str(node.value)) for node in tops}
    for node in (node for top in tops for node in _nodes(top)):
        if node.value is not None and id(node) not in sealed:
            sealed[id(node)] = Secret("" if node.children else str(node.value))
    for node in list(_nodes(document.root)) if sealed else ():
        if id(node) in sealed:
            node.value = sealed[id(node)]
            continue
        for key, child in node.children.items():
            node.value[key] = sealed.get(id(child), node.value[key])


def _value_nodes(document: Document) -> Iterator[YamlNode]:
    """Yield the values of secrets: all that is neither a name nor a path to mount.

    A variable with the name of a secret counts as one.
    """
    secrets, managed, envs = map(document.root.child, (*_FIELDS, "envs"))
    if secrets and not isinstance(secrets.value, dict | list):
        yield secrets
    elif secrets:
        is_map = isinstance(secrets.value, dict)
        values = secrets.children.values()
        yield from (node for node in values if is_map or not is_reference(node.value))
    if managed:
        yield from _find_managed(managed)
    names = secret_names(document)
    for name, node in envs.children.items() if envs else ():
        if str(name) in names:
            yield node


def _find_managed(managed: YamlNode) -> Iterator[YamlNode]:
    """Yield the values in managed_secrets; its items are NAME or {NAME: {mount_path: PATH}}."""
    is_list = isinstance(managed.value, list)
    for item in managed.children.values() if is_list else (managed,):
        if isinstance(item.value, dict):
            yield from (node for node in item.children.values() if not _is_mount(node.value))
        elif not (is_list and isinstance(item.value, str)):
            yield item


def _is_mount(value: Data) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() <= {MOUNT_PATH}
        and all(isinstance(path, str) for path in value.values())
    )


def _nodes(root: YamlNode) -> Iterator[YamlNode]:
    visited = set[int]()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) not in visited:
            visited.add(id(node))
            yield node
            stack += node.children.values()


def find_shared(document: Document) -> Iterator[Path]:
    """Yield the other fields of a document whose value is a secret's."""
    names = secret_names(document)
    for field, value in document.data.items():
        if field in _FIELDS or str(field).startswith("x-"):  # no manifest has an anchor alone
            continue
        for path in _paths(value, (field,)):
            if field != "envs" or names.isdisjoint(map(str, path[1:2])):
                yield path


def _paths(value: Data, path: Path) -> Iterator[Path]:
    if isinstance(value, Secret):
        yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, key))


def keep(document: Document) -> dict[str, Any]:
    """Return the fields that the cluster keeps: those of the schema, without values of secrets."""
    file = "header.json" if document.is_header else "task.json"
    data: dict[str, Any] = _keep_known(document.data, file, {"$ref": file})
    if isinstance(data.get("envs"), dict):
        names = secret_names(document)
        data["envs"] = {
            name: None if str(name) in names else value for name, value in data["envs"].items()
        }
    if isinstance(data.get("secrets"), dict):
        data["secrets"] = dict.fromkeys(data["secrets"])
    return data


def _keep_known(value: Data, file: str, rules: Mapping[str, Any]) -> Data:
    """Return a value with the fields that its schema in `file` knows."""
    if not isinstance(value, dict | list):
        return value

    if "$ref" in rules:
        named, _, pointer = rules["$ref"].partition("#")
        return _keep_known(value, named or file, schema.resolve(f"{named or file}#{pointer}"))

    kind = "object" if isinstance(value, dict) else "array"
    for form in rules.get("anyOf", ()):
        if form.get("type", kind) == kind:
            return _keep_known(value, file, form)
    if isinstance(value, list):
        return [_keep_known(item, file, rules.get("items", {})) for item in value]

    fields = rules.get("properties", {})
    other = rules.get("additionalProperties", {})
    takes_others = other is not False and "x-unknown" not in rules
    other = other if isinstance(other, dict) else {}
    return {
        key: _keep_known(item, file, fields.get(key, other))
        for key, item in value.items()
        if key in fields or takes_others
    }
