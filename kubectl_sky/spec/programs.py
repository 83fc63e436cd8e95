"""Find the programs that a task calls and the default image does not have.

A task without `image_id` runs in python:3.13-slim, which has fewer programs than SkyPilot's image.
The result is a warning: a script may install programs in a way that is not recognized here.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import dropwhile
from typing import TYPE_CHECKING

import yaml
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.errors import Problem
from kubectl_sky.spec import image
from kubectl_sky.spec.document import Document
from kubectl_sky.spec.kubernetes import POD_CONFIG
from kubectl_sky.words import assets
from kubectl_sky.words.settings import USE_SKYPILOT_IMAGE

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MAX_SCRIPT = 200_000  # characters; longer scripts are not read
# Commands that run the command in their arguments.
_WRAPPERS = {"env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time", "timeout", "xargs"}
_LOOKUPS = {"command", "hash", "type", "which"}  # they only look for a program
_INSTALLERS = {"apk", "apt", "apt-get", "brew", "conda", "dnf", "mamba", "micromamba", "npm"}
_INSTALLERS |= {"pip", "pip3", "pipx", "python", "python3", "snap", "uv", "yum"}
_INSTALL = {"add", "create", "i", "install"}
_LOADERS = {".", "bash", "curl", "eval", "sh", "source", "wget"}  # of installers
_VERSION = re.compile(r"[=<>\[@~!].*|-[0-9.]+$")
_SILENT = {":", "true", "echo"}
_STATEMENTS = {"list", "pipeline", "redirected_statement", "negated_command"}


class _Table(Struct, frozen=True):
    """The data of schemas/programs.yaml; `pattern` matches any missing program."""

    missing: frozenset[str]
    of_skypilot: frozenset[str]
    of_skypilot_without_gpus: frozenset[str]
    of_docker: frozenset[str]
    of_gpus: frozenset[str]
    optional: frozenset[str]
    brought_by: dict[str, list[str]]
    pattern: re.Pattern[str]


@cache
def _table() -> _Table:
    data = yaml.load(assets.read("schemas", "programs.yaml"), yaml.CSafeLoader)  # 7 ms less
    names = "|".join(map(re.escape, data["missing"]))
    return _Table(
        **{name: frozenset(data[name]) for name in _Table.__struct_fields__[:-2]},
        brought_by=data["brought_by"],
        pattern=re.compile(rf"(?<![\w-])({names}|git\+)(?!\w)"),
    )


class _Call(Struct, frozen=True):
    """The first call of a program: its field, and its line in the script from 0."""

    program: str
    field: str
    line: int = 0


def missing(document: Document, default: str) -> Problem | None:
    """Return a warning for the programs that a task calls and the image `default` lacks."""
    if document.is_header or document.is_volume or not _has_default_image(document):
        return None
    calls = [(call.program, call.field, _line(document, call)) for call in _calls(document)]
    if not calls:
        return None
    _, field, line = calls[0]
    programs = [call[0] for call in calls[:1]] + [
        f"{name} (line {line_number})" for name, _, line_number in calls[1:]
    ]
    message = f"the default image {default} has no {_listed(programs)}"
    hint = _advice([name for name, _, _ in calls], _has_gpus(document))
    problem = document.problem((field,), message, hint, "warning")
    return replace(problem, line=line, column=1) if problem.line != line else problem


def _listed(names: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _advice(names: list[str], has_gpus: bool) -> str:
    """Return where the missing programs are: in SkyPilot's image, in packages or nowhere."""
    table = _table()
    available = table.of_skypilot | (frozenset() if has_gpus else table.of_skypilot_without_gpus)
    packages = [name for name in names if name not in available | table.of_docker]
    daemons = [name for name in names if name in table.of_docker]
    is_in_skypilot = bool(available.intersection(names))
    hints = [USE_SKYPILOT_IMAGE] if is_in_skypilot else []
    if packages:
        install = f"install {' and '.join(packages)} in setup"
        hints.append(install if is_in_skypilot else f"{install}, or set image_id")
    if daemons:
        hints.append(
            f"pods have no daemon for {daemons[0]}: set image_id to the image that it runs"
        )
    return "; ".join(hints)


def _has_default_image(document: Document) -> bool:
    containers = document.get(*POD_CONFIG, "spec", "containers")
    items = containers if isinstance(containers, list) else []
    replaced = any(isinstance(item, dict) and item.get("image") for item in items)
    return not replaced and image.is_default(document)


def _line(document: Document, call: _Call) -> int:
    """Return the line of a call; that of its field if the script is not written with `|`."""
    node, (line, _) = document.node((call.field,)), document.position((call.field,))
    is_literal = node and node.style == "|" and not document.source((call.field,))
    return line + 1 + call.line if is_literal else line


def _calls(document: Document) -> Iterator[_Call]:
    """Yield the first call of each missing program, in the order in which they run."""
    available = set(_table().of_gpus) if _has_gpus(document) else set()
    if isinstance(document.get("workdir", "url"), str):
        available.add("git")
        yield _Call("git", "workdir")
    for field in ("setup", "run"):
        text = document.get(field)
        is_readable = isinstance(text, str) and len(text) <= _MAX_SCRIPT
        if is_readable and _table().pattern.search(text):
            yield from _read(field, text, available)


def _has_gpus(document: Document) -> bool:
    fields = {"accelerators", "gpus", "instance_type"}
    return not fields.isdisjoint(document.resources.fields)


@cache
def _parser() -> "Parser":
    import tree_sitter_bash  # noqa: PLC0415 -- most tasks need no parser
    from tree_sitter import Language, Parser  # noqa: PLC0415

    return Parser(Language(tree_sitter_bash.language()))


def _read(field: str, text: str, available: set[str]) -> Iterator[_Call]:
    """Yield the calls in a script; add programs to `available` that are reported or installed."""
    stack = [_parser().parse(text.encode(errors="replace")).root_node]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            available.add(_text(node.child_by_field_name("name")))
        elif node.type == "declaration_command":  # export PATH=…/miniconda3/bin:$PATH
            available.update(_implied_programs([_text(node)]))
        elif node.type == "command":
            words = _words(node)
            program = _program(words)
            available.update(_installed_programs(words))
            if (
                program in _table().missing
                and program not in available
                and not _is_optional(node, program)
            ):
                available.add(program)
                yield _Call(program, field, node.start_point.row)
        if node.type != "ERROR":  # what the grammar does not know
            stack += reversed(node.children)


def _words(command: "Node") -> list[str]:
    """Return a command's words without wrappers such as sudo; "" for a variable as its name."""
    name = command.child_by_field_name("name")
    is_fixed = name is not None and [child.type for child in name.children] == ["word"]
    arguments = [_text(node).strip("\"'") for node in command.children_by_field_name("argument")]
    words = [_text(name) if is_fixed else "", *arguments]
    while words and words[0] in _WRAPPERS:
        words = list(dropwhile(_is_option, words[1:]))
    return words or [""]


def _is_option(word: str) -> bool:
    return word.startswith("-") or "=" in word or word[:1].isdigit()


def _text(node: "Node | None") -> str:
    return (node.text or b"").decode() if node else ""


def _program(words: list[str]) -> str:
    """Return the program that a command needs: pip needs git for `git+https://…`.

    A question for its version needs none.
    """
    if words[1:2] == ["--version"]:
        return ""
    has_git_url = words[0] in _INSTALLERS and any("git+" in word for word in words)
    return "git" if has_git_url else words[0]


def _installed_programs(words: list[str]) -> Iterator[str]:
    """Yield the programs that a command installs, or looks for because they may be missing."""
    name, *arguments = words
    if name in _LOOKUPS:
        yield from arguments
    elif name in _INSTALLERS and not _INSTALL.isdisjoint(arguments):
        yield from (_VERSION.sub("", word) for word in arguments)
        yield from _implied_programs(arguments)
    elif name in _LOADERS:
        yield from _implied_programs(arguments)


def _implied_programs(texts: list[str]) -> Iterator[str]:
    for text in map(str.lower, texts):
        for part, programs in _table().brought_by.items():
            if part in text:
                yield from programs


def _is_optional(command: "Node", program: str) -> bool:
    """Report whether `|| true` follows a command that only shows something."""
    node, parent = command, command.parent
    while program in _table().optional and parent and parent.type in _STATEMENTS:
        operator = node.next_sibling
        if operator and operator.type == "||" and operator.next_sibling:
            return _text(operator.next_sibling).split()[0] in _SILENT
        node, parent = parent, parent.parent
    return False
