"""Explain the errors of the YAML parser, at the position where the user can fix them."""

import re

import yaml

from kubectl_sky.errors import Problem
from kubectl_sky.spec import schema
from kubectl_sky.spec.compose import Composer
from kubectl_sky.spec.document import Node, Position, printable

Explanation = tuple[Position, str, str]  # position, message, hint

# Messages of the parser that do not help users: a pattern, the message, and the hint.
_MESSAGES = (
    (r"found character '\\t'|found a tab|found character that cannot start any token",
     "a character that YAML does not allow here", ""),
    (r"could not find expected ':'", 'expected "key: value"', "check the indentation"),
    (r"mapping values are not allowed", 'unexpected ":"',
     'check the indentation, or quote a value that contains ": "'),
    (r"did not find expected '-' indicator", 'expected another "- item" at this level', ""),
    (r"did not find expected key", "expected a field at this level",
     "check the indentation and the quotes"),
    (r"did not find expected ',' or '\]'", 'expected "," or "]"', ""),
    (r"did not find expected ',' or '\}'", 'expected "," or "}"', ""),
    (r"did not find expected node content", "expected a value", ""),
    (r"found undefined tag handle", "unknown tag", ""),
)  # fmt: skip
_QUOTES = ("'", '"')
_BRACKETS = ("{", "[")
_NO_SPACE = re.compile(r"[A-Za-z_]+:\S")


def explained(error: yaml.YAMLError, text: str, file: str, composer: Composer) -> Problem:
    """Return the problem that an error of the parser stands for.

    `composer` has read the text up to the error.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        return Problem(file, 0, 0, "", f"invalid YAML: {printable(str(error), 100)}")
    source = _Source(error, text, composer)
    position, message, hint = (
        source.character()
        or source.unclosed()
        or source.after_quote()
        or source.missing_colon()
        or source.indentation()
        or source.other()
    )
    if "{{" in source.line(source.position):
        hint = '"{{…}}" looks like a template: fill it in first'
    return Problem(file, *position, "", f"invalid YAML: {message}", hint)


class _Source:
    """The text around an error; each method explains one kind of mistake, or returns None."""

    def __init__(self, error: yaml.MarkedYAMLError, text: str, composer: Composer) -> None:
        mark = error.problem_mark or error.context_mark
        self.position = _position(mark)
        self.context = error.context or ""
        self.context_position = _position(error.context_mark)
        self.message = error.problem or error.context or "cannot be read"
        self.lines = text.splitlines()
        self.open_collections = composer.open_collections
        self.scalar: Node | None = composer.last_scalar

    def line(self, position: Position) -> str:
        """Return the line of a position; "" after the end of the text."""
        return self.lines[position[0] - 1] if 0 < position[0] <= len(self.lines) else ""

    def character_at(self, position: Position) -> str:
        """Return the character at a position; "" at the end of a line."""
        return self.line(position)[position[1] - 1 : position[1]]

    def indent(self, position: Position) -> int:
        """Return the indentation of a line; 0 after the end of the text."""
        line = self.line(position)
        return len(line) - len(line.lstrip())

    def starts_line(self, position: Position) -> bool:
        """Return whether a position is that of the first text of its line."""
        return position[1] == self.indent(position) + 1

    def character(self) -> Explanation | None:
        """Explain a character that YAML does not allow at its position."""
        line, character = self.line(self.position), self.character_at(self.position)
        indentation = line[: self.indent(self.position)]
        if "\t" in indentation:
            position = (self.position[0], indentation.index("\t") + 1)
            return position, "a tab indents this line", "use spaces to indent"
        if character and character in "@`%":
            return self.position, f'a value cannot start with "{character}"', "put it in quotes"
        if character and character in "}]" and not self.context.startswith("while parsing a flow"):
            return self.position, f'unexpected "{character}"', "nothing is open that it closes"
        return None

    def unclosed(self) -> Explanation | None:
        """Explain a quote, brace or bracket that is never closed, where it opens."""
        if self.context.startswith("while scanning a quoted scalar"):
            return self.context_position, "this quote is not closed", ""
        if not self.context.startswith("while parsing a flow"):
            return None
        brackets = [
            position
            for position in self.open_collections
            if self.character_at(position) in _BRACKETS
        ]
        if not brackets:
            return None
        opening = brackets[-1]
        ended = self.position[0] > opening[0] and self.indent(self.position) <= self.indent(opening)
        if not ended and self.line(self.position):
            return None
        return opening, f'this "{self.character_at(opening)}" is not closed', ""

    def after_quote(self) -> Explanation | None:
        """Explain text after a closing quote: the quote before it may lack its end."""
        scalar = self.scalar
        if not scalar or scalar.style not in _QUOTES or scalar.end[0] != self.position[0]:
            return None
        if "did not find expected" not in self.message or scalar.end > self.position:
            return None
        if scalar.position[0] < scalar.end[0]:
            line = scalar.end[0]
            hint = f"add the closing quote, or check the quotes in line {line}"
            return scalar.position, f"this quote is not closed before line {line}", hint
        if "expected key" not in self.message:
            return None
        hint = "to use quotes in a script, write it below run: |"
        return self.position, "unexpected text after the closing quote", hint

    def missing_colon(self) -> Explanation | None:
        """Explain a field without a colon, or without the space after it."""
        scalar = self.scalar
        if "could not find expected ':'" in self.message:
            position = self.context_position
        elif "mapping values are not allowed" in self.message and scalar:
            is_folded = not scalar.style and scalar.position[0] < scalar.end[0] == self.position[0]
            if not is_folded:
                return None
            if not self.starts_line(scalar.position):
                line = scalar.position[0]
                message = f"this line is indented more than line {line}, so it continues its value"
                position = (self.position[0], self.indent(self.position) + 1)
                return position, message, "check the indentation"
            position = scalar.position
        else:
            return None
        line_text = self.line(position).strip()
        if _NO_SPACE.match(line_text):
            return position, 'expected a space after ":"', ""
        word = (line_text.split() or [""])[0]
        # Any other word may be a part of a secret.
        if word in schema.fields("task") | schema.fields("resources"):
            return position, f'expected ":" after "{word}"', ""
        return position, 'expected "key: value"', "check the indentation"

    def indentation(self) -> Explanation | None:
        """Explain a line whose indentation is that of no line above."""
        if "did not find expected key" in self.message and self.starts_line(self.position):
            hint = "align it with the fields above"
            return self.position, "the indentation of this line matches no field above it", hint
        return None

    def other(self) -> Explanation:
        """Explain any other error by its message."""
        for pattern, message, hint in _MESSAGES:
            if re.search(pattern, self.message):
                return self.position, message, hint
        return self.position, printable(self.message, 100), ""


def _position(mark: yaml.Mark | None) -> Position:
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)
