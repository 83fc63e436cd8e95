"""`kubectl sky explain`."""

import textwrap
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, output

if TYPE_CHECKING:
    from kubectl_sky.spec.explain import Field

_WIDTH = 100
_INDENT = "    "


@commands.command(
    "explain",
    examples=["explain", "explain resources.accelerators", "explain settings"],
)
@click.argument("field", default="")
def command(field: str) -> None:
    """Explain FIELD of a task file: type, default, example and what it becomes in the pod.

    Without FIELD, it lists the fields of a task. The fields of the settings begin with `settings`,
    those of volume files with `volume`, and those of a pipeline's header with `header`.
    """
    from kubectl_sky.spec import explain

    match = explain.explain(field)
    parts = [_head(match)] if match.path else [_paragraph("DESCRIPTION", match.description)]
    below = match.fields()
    if below:
        rows = [[f"  {child.path[-1]}", f"<{child.types}>", child.summary] for child in below]
        parts.append(
            "FIELDS:\n" + output.table(["FIELD", "TYPE", ""], rows, fits=False).partition("\n")[2]
        )
    output.out("\n\n".join(parts))


def _head(field: "Field") -> str:
    paragraphs = {
        "DESCRIPTION": field.description,
        "VALUES": ", ".join(field.values),
        "EXPECTED": "" if field.values or field.fields() else field.expected,
        "DEFAULT": field.default,
        "BECOMES": field.pod,
        "SKYPILOT": field.skypilot,
    }
    parts = [f"FIELD: {field.name} <{field.types}>"]
    parts += [_paragraph(title, text) for title, text in paragraphs.items() if text]
    if field.example:
        parts.append(f"EXAMPLE:\n{textwrap.indent(field.example, _INDENT)}")
    return "\n\n".join(parts)


def _paragraph(title: str, text: str) -> str:
    wrapped = textwrap.fill(text, _WIDTH - len(_INDENT), break_long_words=False)
    return f"{title}:\n{textwrap.indent(wrapped, _INDENT)}"
