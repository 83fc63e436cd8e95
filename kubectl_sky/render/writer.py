"""Write values as YAML, so that no value is ever read as structure.

No other module writes values. Strings are quoted only if a YAML parser could read them as something
else. A script is a literal block if it reads back unchanged.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from kubectl_sky.plan import provenance
from kubectl_sky.words import names
from kubectl_sky.words.secret import Secret, reveal

# A string needs no quotes if PyYAML (YAML 1.1), YAML 1.2 and kubectl's Go parser all read it back
# as the same string: as a key or a value, in block or flow style.
_PLAIN = re.compile(
    r"""
    (?! (?: y | n | yes | no | on | off | true | false | null | \.inf | \.nan ) \Z )
    (?! .* (?: :[ ] | [ ]\# | [ :]\Z ) )
    (?: [a-z_/$] | ~/ | \.[a-df-z/]
      | [0-9] (?= .* [g-np-su-wy/@=] ) )  # a character that no number and no date has
    [a-z0-9 !"\#$%&'()*+./:;<=>@\\^_`|~-]* \Z
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_SINGLE_QUOTED = re.compile(r"[ -&(-~]*\Z")  # printable ASCII, but no single quote
BREAKS = re.compile("[\r\x85\u2028\u2029\ufeff]")  # YAML turns these into a line feed or drops them
_MARK = "\0"  # around an origin; not in written values, because YAML escapes it
_SEAL = "\1"  # after a secret's value; not in other values, because YAML escapes it
_MARKED = re.compile("\0([^\0]*)\0")


class _Dumper(yaml.CSafeDumper):
    """Write strings as people do: quoted only if needed, and several lines as a block."""

    def ignore_aliases(self, data: object) -> bool:
        """Write repeated objects in full, not as aliases."""
        return True


def _style(text: str) -> str | None:
    if _PLAIN.match(text):
        return None
    if "\n" in text:
        return "|"
    return "'" if _SINGLE_QUOTED.match(text) and ('"' in text or "\\" in text) else '"'


_Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, _style(text))
)


def write(value: object) -> str:
    """Write a value as one line of YAML: the `finalize` hook of every template.

    Undefined values raise an error. The output of macros is returned as it is.
    """
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises, naming the variable
    if isinstance(value, Markup):
        return value
    if isinstance(value, Secret):
        raise jinja2.TemplateRuntimeError(
            "a secret's value is written by the filter base64, in a Secret"
        )

    if isinstance(value, provenance.TracedStr):
        return _mark(_string(str(value)), value.origin)
    if isinstance(value, provenance.TracedInt):
        return _mark(_inline(int(value)), value.origin)
    if isinstance(value, str):
        return _string(value)
    return _inline(value)


def comment(text: str) -> str:
    """Return rendered text with the origins of values as end-of-line comments."""
    if _MARK not in text:
        return text
    lines = []
    for line in text.split("\n"):
        origins = dict.fromkeys(_MARKED.findall(line))
        lines.append(f"{_MARKED.sub('', line)}  # {', '.join(origins)}" if origins else line)
    return "\n".join(lines)


def unseal(text: str) -> tuple[str, bool]:
    """Return rendered text without seals, and whether it contains a secret's value."""
    return text.replace(_SEAL, ""), _SEAL in text


def _mark(text: Markup, origin: str) -> Markup:
    return Markup(f"{text}{_MARK}{origin}{_MARK}") if origin else text


def block(text: str, indent: int) -> Markup:
    """Write a script as a literal block.

    `indent` is the number of spaces before its lines, two more than before its key. Text that a
    block cannot represent (control characters, other line breaks) is quoted instead.
    """
    origin = text.origin if isinstance(text, provenance.TracedStr) else ""
    text = str(text)
    if "\n" not in text or BREAKS.search(text):
        return _mark(_string(text), origin)
    chomping = "" if text.endswith("\n") else "-"
    if text.endswith("\n\n"):
        chomping = "+"
    indicator = "2" if text[0] in " \t\n" else ""  # else the first line shows the indentation
    lines = text.removesuffix("\n").split("\n")

    def literal(depth: int) -> str:
        body = "\n".join(" " * depth + line if line else "" for line in lines)
        return f"|{indicator}{chomping}\n{body}"

    try:
        exact = yaml.load(f"k: {literal(2)}\nl: 0\n", Loader=yaml.CSafeLoader)["k"] == text
    except yaml.YAMLError:
        exact = False
    if not exact:
        return _mark(_string(text), origin)
    head, _, body = literal(indent).partition("\n")
    return Markup(_mark(Markup(head), origin) + Markup(f"\n{body}"))


def fields(values: Mapping[str, object], indent: int) -> Markup:
    """Write a map with one field per line; `indent` is the number of spaces before its keys."""
    lines = (f"{write(key)}: {write(value)}" for key, value in values.items())
    return Markup(f"\n{' ' * indent}".join(lines) or "{}")


def nest(text: str, indent: int) -> str:
    """Indent all lines of a macro's output."""
    if not isinstance(text, Markup):
        return text  # a value, which is written later
    padding = " " * indent
    return Markup("\n".join(padding + line if line else "" for line in str(text).split("\n")))


def document(value: object) -> str:
    """Write a whole object with one field per line."""
    return _dump(value, default_flow_style=False)


def task_file(documents: Iterable[object]) -> str:
    """Write the documents of a task file; empty if it is too long to be kept in the cluster."""
    text = "---\n".join(map(document, documents))
    return text if len(text.encode()) <= names.MAX_TASK_FILE else ""


def b64(value: str | bytes | Secret) -> Markup:
    """Encode in Base64: `data` of a Secret, `binaryData` of a ConfigMap."""
    if isinstance(value, Secret):
        text = _string(base64.b64encode(reveal(value)).decode())
        return _mark(Markup(f"{text}{_SEAL}"), value.origin)
    data = value.encode() if isinstance(value, str) else value
    text = _string(base64.b64encode(data).decode())
    return _mark(text, value.origin) if isinstance(value, provenance.TracedStr) else text


@lru_cache(maxsize=1024)
def _string(text: str) -> Markup:
    style = _style(text)
    if style is None:
        return Markup(text)
    if style == "'":
        return Markup(f"'{text}'")
    return Markup(_dump(text, yaml.CSafeDumper, default_style='"').removesuffix("\n"))


def _inline(value: object) -> Markup:
    text = _dump(value, default_flow_style=True)
    return Markup(text.removesuffix("\n").removesuffix("\n..."))  # the end of a lone scalar


def _dump(value: object, dumper: type[yaml.CSafeDumper] = _Dumper, **style: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=dumper, width=2**31 - 1, sort_keys=False, allow_unicode=True, **style
    )
    return text
