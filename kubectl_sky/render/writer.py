"""Values become YAML here and nowhere else, so that no value is ever read as structure.

Strings are always in double quotes, written by the YAML library; a script may stand as a block
when it reads back as itself.
"""

import base64
import re
from functools import lru_cache

import jinja2
import yaml
from markupsafe import Markup

_PLAIN = re.compile(r"[A-Za-z0-9 ./:_=,@%+-]*\Z")  # printable, and neither quote nor backslash
_FIELD = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[A-Za-z][A-Za-z0-9./_-]*\Z", re.I)
_BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")  # what YAML would turn into a line feed or drop


class _Quoted(yaml.CSafeDumper):
    """Strings always in double quotes, so no string is read as a number, a date or a bool."""


_Quoted.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


class _Fields(_Quoted):
    """Names of fields stand as they are where everybody reads them as text."""

    def ignore_aliases(self, data: object) -> bool:
        """Write what is there twice twice."""
        return True


def _mapping(dumper: _Fields, value: dict[str, object]) -> yaml.MappingNode:
    node = dumper.represent_mapping("tag:yaml.org,2002:map", value)
    for key, _ in node.value:
        key.style = None if _FIELD.match(key.value) else key.style
    return node


_Fields.add_representer(dict, _mapping)


def write(value: object) -> str:
    """Write a value as one line of YAML; let undefined values fail and macro output through.

    This is the `finalize` hook of every template.
    """
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises, naming the variable
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return _string(value)
    return Markup(_dump(value))


def block(text: str, indent: int) -> Markup:
    """Write a script as a literal block whose lines stand `indent` spaces in, two after its key.

    Text that a block cannot carry (control characters, foreign line breaks) stays quoted.
    """
    if "\n" not in text or _BREAKS.search(text):
        return _string(text)
    chomping = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")

    def literal(depth: int) -> str:
        body = "\n".join(" " * depth + line if line else "" for line in lines)
        return f"|2{chomping}\n{body}"

    try:
        exact = yaml.load(f"k: {literal(2)}\nl: 0\n", Loader=yaml.CSafeLoader)["k"] == text
    except yaml.YAMLError:
        exact = False
    return Markup(literal(indent)) if exact else _string(text)


def document(value: object) -> str:
    """Write a whole object as people write it: a field a line, and strings in double quotes."""
    text: str = yaml.dump(
        value, Dumper=_Fields, width=2**31 - 1, sort_keys=False, allow_unicode=True
    )
    return text


def b64(value: str | bytes) -> Markup:
    """Base64 of bytes, or of a text's: `data` of a Secret, `binaryData` of a ConfigMap."""
    data = value.encode() if isinstance(value, str) else value
    return Markup(f'"{base64.b64encode(data).decode()}"')


@lru_cache(maxsize=4096)
def _string(text: str) -> Markup:
    return Markup(f'"{text}"') if _PLAIN.match(text) else Markup(_dump(text))


def _dump(value: object) -> str:
    text: str = yaml.dump(
        value,
        Dumper=_Quoted,
        default_flow_style=True,
        width=2**31 - 1,
        sort_keys=False,
        allow_unicode=True,
    )
    return text.removesuffix("\n").removesuffix("\n...").rstrip("\n")
