"""The schema of `pod_config`: the fields of a pod template, as the real server's OpenAPI has them.

`python -m tests.spec.pod` writes schemas/pod.json anew, from the schemas of the practice cluster.
"""

import json
from typing import Any

from kubectl_sky.spec.schema import BASE
from kubectl_sky.words.assets import CHECKOUT
from kubectl_sky_practice.schemas import definitions

Json = dict[str, Any]

FILE = CHECKOUT / "schemas" / "pod.json"
_REF = "#/components/schemas/"
_ROOT = "io.k8s.api.core.v1.PodTemplateSpec"
# An item of these may change another one, and so say no more than what is to change.
_PARTIAL = {"PodSpec": ("containers",), "Container": ("name",), "VolumeMount": ("name",)}
_LEFT_OUT = ("managedFields",)  # what only a server writes
_SCALARS: Json = {
    "Quantity": {
        "type": ["string", "number"],
        "pattern": "^[+-]?[0-9.]+([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?$",
        "x-expected": "a quantity such as 500m or 4Gi",
    },
    "IntOrString": {"type": ["integer", "string"], "x-expected": "a number or a name"},
    "Time": {"type": "string", "x-expected": 'a time such as "2026-01-31T12:00:00Z"'},
}


def schema() -> Json:
    """Return the schema: names, types and values, without the server's prose."""
    found: Json = {}
    todo = [_ROOT]

    while todo:
        name = todo.pop()
        short = _short(name)
        if short not in found:
            found[short] = _SCALARS.get(short) or _definition(short, definitions()[name], todo)

    root = found.pop(_short(_ROOT))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": BASE + "pod.json",
        "title": "Fields of a pod that tasks and settings may set",
        "description": "Metadata and spec of the pods, which override those of the task."
        " Example: {spec: {priorityClassName: high}}",
        "x-expected": "fields of a pod such as spec: …",
        **root,
        "$defs": {name: found[name] for name in sorted(found)},
    }


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _definition(short: str, given: Json, todo: list[str]) -> Json:
    made = _node(given, todo)
    required = [name for name in given.get("required", ()) if name not in _PARTIAL.get(short, ())]
    return made | ({"required": required} if required else {})


def _node(given: Json, todo: list[str]) -> Json:
    """Return one value's schema, and note what it refers to."""
    refs = [given, *given.get("allOf", ())]
    name = next((str(one["$ref"]).removeprefix(_REF) for one in refs if "$ref" in one), "")

    if name:
        todo.append(name)
        return {"$ref": f"#/$defs/{_short(name)}"}

    made: Json = {"type": given["type"]} if "type" in given else {}
    if given.get("enum"):
        made["enum"] = given["enum"]
    if "items" in given:
        made["items"] = _node(given["items"], todo)
    if isinstance(given.get("additionalProperties"), dict):
        made["additionalProperties"] = _node(given["additionalProperties"], todo)

    if "properties" in given:
        fields = {name: given["properties"][name] for name in sorted(given["properties"])}
        fields = {name: field for name, field in fields.items() if name not in _LEFT_OUT}
        made["properties"] = {name: _node(field, todo) for name, field in fields.items()}
        made["additionalProperties"] = False

    return made


def text() -> str:
    """Return the schema as the file has it: a line for each kind of thing."""
    made = schema()
    kinds = ",\n".join(f"    {json.dumps(k)}: {_json(v)}" for k, v in made["$defs"].items())
    top = [f"  {json.dumps(k)}: {_json(v)}" for k, v in made.items() if k != "$defs"]
    return "{\n" + ",\n".join([*top, '  "$defs": {\n' + kinds + "\n  }"]) + "\n}\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
