"""Load YAML without running code, within size limits, with positions of values.

SkyPilot uses PyYAML's SafeLoader; scalars have the same meaning here. This loader also rejects,
with a position, input that SafeLoader accepts or fails on: duplicate keys, keys that are lists or
maps, alias bombs, recursive aliases and very deep nesting. Syntax errors get the position where
they can be fixed.
"""

import re
from collections.abc import Sequence

import yaml
from msgspec.structs import replace

from kubectl_sky.errors import InvalidFiles, Problem
from kubectl_sky.spec import schema
from kubectl_sky.spec.compose import Composer, TooLarge, position_of
from kubectl_sky.spec.document import Document, Position, YamlNode, is_header, printable
from kubectl_sky.spec.secret_values import seal
from kubectl_sky.words.secret import Secret

MAX_BYTES = 4 * 1024 * 1024

_CONTENT = re.compile(r"\S")
_NEXT_DOCUMENT = re.compile(r"\n---(\s|$)")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's loader is 8 times as fast
_UNPRINTABLE = yaml.reader.Reader.NON_PRINTABLE
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def load(
    text: bytes, file: str, example: str = "run: …", optional: bool = False
) -> tuple[Document, ...]:
    """Load the documents of a file; `file` is its name in problems.

    `example` is a field of such a document, for messages. If `optional`, the file may be empty.
    Null documents among others are skipped, as in SkyPilot. Raises PartlyRead with all problems.
    """
    decoded = _decode(text, file)
    composer = Composer(decoded)
    roots = list[YamlNode]()
    readable = None
    syntax_problems: list[Problem] = []

    try:
        roots += composer.documents(yaml.parse(decoded, Loader=_LOADER))
        multiple = composer.number > 2
    except (yaml.YAMLError, TooLarge) as error:
        readable = composer.number - 1 - (_NO_START in str(error))  # that text belongs above
        multiple = readable > 0 or _several(decoded)
        if isinstance(error, yaml.YAMLError):
            problem = explain(error, decoded, file, composer)
            syntax_problems.append(replace(problem, document=readable + 1))

    problems = [
        Problem(file, *position, "", message, hint, document=number)
        for number, position, message, hint in composer.problems
    ] + syntax_problems
    roots = [root for root in roots if root.value is not None][:readable]
    if not problems and not optional and all(root.value == {} for root in roots):
        hint = "a task needs at least run or setup"
        problems.append(Problem(file, 0, 0, "", "the file is empty", hint))

    for root in roots:
        if isinstance(root.value, dict):
            seal(Document(file, root.value, root))
    problems += [
        Problem(file, *key.position, "", "this key is a secret's value", document=number)
        for number, key in composer.anchored_keys
        if isinstance(key.value, Secret)
    ]

    no_mappings = [
        _expect_fields(file, root, example, number)
        for number, root in enumerate(roots, 1)
        if not isinstance(root.value, dict)
    ]
    if roots and len(no_mappings) == len(roots) and not syntax_problems:
        problems = []  # they quote keys, but this is no task file
    problems += no_mappings

    documents = _documents(file, roots, unread=len(syntax_problems))
    if problems:
        invalid = {problem.document for problem in problems}
        kept = problems if multiple else [replace(problem, document=0) for problem in problems]
        raise PartlyRead(sorted(kept), _without(documents, invalid))
    return documents


def _without(documents: Sequence[Document], numbers: set[int]) -> list[Document]:
    return [document for document in documents if document.index + 1 not in numbers]


class PartlyRead(InvalidFiles):
    """A file is invalid; its other `documents` can be checked."""

    def __init__(self, problems: Sequence[Problem], documents: Sequence[Document]) -> None:
        super().__init__(problems)
        self.documents = documents


def _expect_fields(file: str, root: YamlNode, example: str, number: int) -> Problem:
    # The message leaves out the text: a link may lead to a file that others must not read.
    kind = "a list" if isinstance(root.value, list) else "a text"
    message = f'expected fields such as "{example}", got {kind}'
    items = root.value if isinstance(root.value, list) else []
    hint = _NO_DASH if any(isinstance(item, dict) for item in items) else ""
    return Problem(file, *root.position, "", message, hint, document=number)


def _several(text: str) -> bool:
    """Report whether invalid text has another document after one that is not empty."""
    content = _CONTENT.search(text)
    return bool(content and _NEXT_DOCUMENT.search(text, content.end()))


def _documents(file: str, roots: list[YamlNode], unread: int = 0) -> tuple[Document, ...]:
    first = roots[0].value if roots else None
    has_header = len(roots) + unread > 1 and is_header(first)
    parallel = has_header and isinstance(first, dict) and first.get("execution") == "parallel"
    title = first.get("name") if has_header and isinstance(first, dict) else None

    tasks = roots[1:] if has_header else roots
    name_nodes = [task.child("name") for task in tasks]
    names = tuple(node.value if node else None for node in name_nodes)

    return tuple(
        Document(
            file,
            root.value,
            root,
            index=index,
            count=len(roots) + unread,
            tasks=len(tasks) + unread,
            names=names,
            parallel=parallel,
            title=title,
        )
        for index, root in enumerate(roots)
    )


def _decode(text: bytes, file: str) -> str:
    """Decode the text and check its characters. Raises InvalidFiles."""
    if len(text) > MAX_BYTES:
        limit = MAX_BYTES // 1024 // 1024
        raise _invalid(file, "", 0, f"the file is larger than {limit} MiB", "is it a task file?")
    if text.startswith(_UTF_16_OR_32):
        raise _invalid(file, "", 0, "the file is encoded as UTF-16 or UTF-32", "save it as UTF-8")
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # `start` counts from after a byte order mark
        valid = text.removeprefix(b"\xef\xbb\xbf")[: error.start].decode("utf-8")
        byte = error.object[error.start]
        message = f"the file is not UTF-8: byte 0x{byte:02x} at offset {error.start}"
        raise _invalid(file, valid, len(valid), message, "save it as UTF-8") from error
    if match := _UNPRINTABLE.search(decoded):
        name = f"U+{ord(match.group()):04X}"
        message = f"YAML does not allow the character {name}"
        hint = (
            "is it a text file?" if match.group() == "\0" else 'write it as an escape in "quotes"'
        )
        raise _invalid(file, decoded, match.start(), message, hint)
    return decoded


def _invalid(file: str, text: str, offset: int, message: str, hint: str) -> InvalidFiles:
    line = text.count("\n", 0, offset) + 1 if text else 0
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1 if text else 0
    return InvalidFiles([Problem(file, line, column, "", message, hint)])


Explanation = tuple[Position, str, str]  # position, message, hint

# Messages of the parser that do not help users: a pattern, the message, and the hint.
_MESSAGES = (
    (r"found character '\\t'|found a tab|found character that cannot start any token",
     "a character that YAML does not allow here", ""),
    (r"found unknown escape character", "a backslash that begins no escape of YAML",
     "write two, or use single quotes"),
    (r"could not find expected ':'", 'expected "key: value"', "check the indentation"),
    (r"mapping values are not allowed", 'unexpected ":"',
     'check the indentation, or quote a value that contains ": "'),
    (r"found unexpected ':'", 'unexpected ":"', "put the value in quotes"),
    (r"did not find expected '-' indicator", 'expected another "- item" at this level', ""),
    (r"did not find expected key", "expected a field at this level",
     "check the indentation and the quotes"),
    (r"did not find expected ',' or '\]'", 'expected "," or "]"', ""),
    (r"did not find expected ',' or '\}'", 'expected "," or "}"', ""),
    (r"did not find expected node content", "expected a value", ""),
    (r"found undefined tag handle", "unknown tag", ""),
    (r"exceeded maximum nesting depth", "nested more than 100 levels deep", ""),
)  # fmt: skip
_QUOTES = ("'", '"')
_BRACKETS = ("{", "[")
_NO_SPACE = re.compile(r"[A-Za-z_]+:\S")
_NO_BREAK = re.compile(r"^\s*?(?=\u00a0)|[:-](?=\u00a0)")
_COMPLETE = re.compile(r"\s*(?:- )*(setup|run)?[^\s:]*:\s+[^\s#|>&]")  # a field with its value
_BLOCK = re.compile(r":\s+[|>][+-]?\s*$")
_NO_START = "did not find expected <document start>"
_ALIGN = "remove that value, or align this line"
_NO_DASH = 'remove the "- " before the fields; a line with --- separates documents'


def explain(error: yaml.YAMLError, text: str, file: str, composer: Composer) -> Problem:
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
        or source.after_document()
        or source.dash()
        or source.block()
        or source.indentation()
        or source.other()
    )

    if no_break := _NO_BREAK.search(source.line(position)):
        position = position[0], no_break.end() + 1
        message = "a no-break space (U+00A0)"
        hint = "write a space"
    if "{{" in source.line(source.position):
        hint = '"{{…}}" looks like a template: fill it in first'

    return Problem(file, *position, "", f"invalid YAML: {message}", hint)


class _Source:
    """The text around an error; each method explains one kind of mistake, or returns None."""

    def __init__(self, error: yaml.MarkedYAMLError, text: str, composer: Composer) -> None:
        mark = error.problem_mark or error.context_mark
        self.position = position_of(mark)
        self.context = error.context or ""
        self.context_position = position_of(error.context_mark)
        self.message = error.problem or error.context or "cannot be read"
        self.lines = text.splitlines()
        self.open_collections = composer.open_collections
        self.scalar: YamlNode | None = composer.last_scalar

    def line(self, position: Position) -> str:
        return self.lines[position[0] - 1] if 0 < position[0] <= len(self.lines) else ""

    def character_at(self, position: Position) -> str:
        return self.line(position)[position[1] - 1 : position[1]]

    def indent(self, position: Position) -> int:
        line = self.line(position)
        return len(line) - len(line.lstrip())

    def starts_line(self, position: Position) -> bool:
        return position[1] == self.indent(position) + 1

    def character(self) -> Explanation | None:
        line = self.line(self.position)
        character = self.character_at(self.position)
        indentation = line[: self.indent(self.position)]
        if "\t" in indentation:
            position = (self.position[0], indentation.index("\t") + 1)
            return position, "a tab indents this line", "use spaces to indent"
        if character and character in "@`%":
            return self.position, f'a value cannot start with "{character}"', "put it in quotes"
        if self.context.startswith(("while scanning an alias", "while scanning an anchor")):
            start = self.character_at(self.context_position)
            return self.context_position, f'a value cannot start with "{start}"', "put it in quotes"
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
        """Explain a field without a colon, or a line that continues a value."""
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
                script = re.match(r"(setup|run):\s+(?:~|null)\s*$", self.line(scalar.position))
                hint = f"for a script, write {script[1]}: |" if script else ""
                return position, message, hint or "remove that value, or align this line"
            position = scalar.position
        else:
            return None
        return self._without_colon(position)

    def _without_colon(self, position: Position) -> Explanation:
        """Explain a line that lacks a colon, or the space after it."""
        line_text = self.line(position).strip()
        if _NO_SPACE.match(line_text):
            return position, 'expected a space after ":"', ""
        word = (line_text.split() or [""])[0]
        # Any other word may be a part of a secret.
        if word in schema.fields("task") | schema.fields("resources"):
            hint = f"write {word}: …" if "=" in line_text else ""
            return position, f'expected ":" after "{word}"', hint
        if self._section(position) in ("envs", "secrets"):
            return position, 'expected "NAME: value"', "to set it by a flag, write NAME: null"
        above = self._above(position)
        if _BLOCK.search(self.line(above)):
            message = f"the text that belongs to line {above[0]} is not indented"
            return position, message, "put spaces before each of its lines"
        return position, 'expected "key: value"', "check the indentation"

    def _section(self, position: Position) -> str:
        """Return the name of the first field above that is indented less; "" if there is none."""
        for number in range(position[0] - 1, 0, -1):
            line = self.lines[number - 1]
            if line.strip() and self.indent((number, 1)) < self.indent(position):
                return line.strip().partition(":")[0]
        return ""

    def _above(self, position: Position) -> Position:
        """Return the start of the last line above that is no comment; (0, 1) if there is none."""
        for number in range(position[0] - 1, 0, -1):
            line = self.lines[number - 1]
            if line.strip() and not line.lstrip(" ").startswith("#"):
                return number, self.indent((number, 1)) + 1
        return 0, 1

    def after_document(self) -> Explanation | None:
        """Explain a first line that is indented more than the fields below it."""
        if self.message != _NO_START:
            return None
        above = self._above(self.position)
        if self.indent(self.position) < self.indent(above):
            first = self._first()
            message = f"this line is indented more than line {self.position[0]} below it"
            spaces = "1 space" if first[1] - self.position[1] == 1 else "the spaces"
            hint = f"remove {spaces} before lines {first[0]} to {above[0]}"
            if first == above:
                hint = "remove the spaces before it"
            return first, message, hint
        return self.position, "unexpected text after the end of the value above", ""

    def _first(self) -> Position:
        """Return the start of the first line of the document with content."""
        starts = [self._above(self.position)]
        while (above := self._above(starts[-1]))[0] and not self.line(above).startswith("---"):
            starts.append(above)
        return starts[-1]

    def dash(self) -> Explanation | None:
        """Explain a list at the top level, or among the fields of a map."""
        outer = self.open_collections[:1]
        is_list = outer and self.character_at(outer[0]) == "-"
        if is_list and "'-' indicator" in self.message and self.position[1] == outer[0][1]:
            return outer[0], 'a "-" makes this a list', _NO_DASH
        in_map = "did not find expected key" in self.message and self.starts_line(self.position)
        if in_map and re.match(r"\s*-\s", self.line(self.position)):
            hint = 'remove the "- ", or indent the items of a list under its field'
            return self.position, 'a "-" among fields', hint
        return None

    def block(self) -> Explanation | None:
        """Explain text in the line of a | or >, which the text has to follow."""
        if self.context.startswith("while scanning a block scalar") and "comment" in self.message:
            message = f'unexpected text after "{self.character_at(self.context_position)}"'
            return self.position, message, "write the text in the lines below, indented"
        return None

    def indentation(self) -> Explanation | None:
        if "did not find expected key" in self.message and self.starts_line(self.position):
            above = self._above(self.position)
            complete = _COMPLETE.match(self.line(above))
            if complete and self.indent(above) < self.indent(self.position):
                message = f"the field in line {above[0]} has a value, so nothing belongs below it"
                name = complete[1]
                hint = f"for a script, write {name}: |" if name else _ALIGN
                return self.position, message, hint
            hint = "align it with the fields above"
            return self.position, "the indentation of this line matches no field above it", hint
        return None

    def other(self) -> Explanation:
        for pattern, message, hint in _MESSAGES:
            if re.search(pattern, self.message):
                return self.position, message, hint
        return self.position, printable(self.message, 100), ""
