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
    examples=["explain", "explain resources.accelerators", "explain settings --recursive"],
)
@click.argument("field", default="")
@click.option("--recursive", is_flag=True, help="List the fields below all fields.")
def command(field: str, recursive: bool) -> None:
    """Explain FIELD of a task file: type, default, example and what it becomes in the pod.

    Without FIELD, it lists the fields of a task. The fields of the settings begin with `settings`,
    those of volume files with `volume`, and those of a pipeline's header with `header`.
    """
    from kubectl_sky.spec import explain

    match = explain.explain(field)
    parts = [_head(match)] if match.path else [_paragraph("DESCRIPTION", match.description)]
    below = match.fields()
    if below:
        rows = _tree(match) if recursive else [_row(child, 0) for child in below]
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


def _tree(field: "Field") -> list[list[str]]:
    depth = len(field.path) + 1
    return [_row(child, len(child.path) - depth) for child in field.walk()]


def _row(field: "Field", level: int) -> list[str]:
    return [f"{'  ' * (level + 1)}{field.path[-1]}", f"<{field.types}>", field.summary]
