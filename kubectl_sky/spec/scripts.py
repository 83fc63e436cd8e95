"""Find a command in a script whose failure goes unnoticed.

The exit code of a script is that of its last command, unless it has `set -e`. The text is read once
from start to end; what is not understood, such as functions, gets no warning.
"""

import re

from msgspec import Struct

from kubectl_sky.spec.document import printable

MAX_SCRIPT = 65_536  # characters; longer scripts are not read
_MAX_DEPTH = 50
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*['\"\\]?([A-Za-z_]\w*)[^\n]*")
_INNER = r"\((?:[^()]|\([^()]*+\))*+\)"
_PARENTHESES = rf"\((?:[^()]|{_INNER})*+\)"
_QUOTED = re.compile(
    rf"""(?P<blank>\\\n|(?<![^\s;&|()])\#[^\n]*)
    |\\.|'[^']*+'|`[^`]*+`|\$\{{[^}}]{{0,500}}\}}|"(?:[^"\\$`]|\\.|\${_PARENTHESES}|`[^`]*+`|\$)*+"
    |(?:[$<>]|(?<==)|(?=\(\()){_PARENTHESES}|(?<!\S)\[\[\ [^\n]{{0,500}}?\ \]\]""",
    re.VERBOSE | re.DOTALL,
)
_REDIRECTION = re.compile(r"(?:&|(?<!\w)[0-9]++)?(?:>>?|<<?<?-?)(?:[&|]-?)?[ \t]*[^\s;&|()<>]*")
_FUNCTION = re.compile(
    r"(?<!\S)(?:function[ \t]+)?[\w:.-]++[ \t]*(?:\([ \t]*\))?\s*(?<!\S)\{(?!\S)"
)
_PART = re.compile(r"(\n|;;&?|\|\||&&|\|&|[|&;()])|[^\n;&|()]+")
# Programs that do the work of a task, programs that copy its files, and what only surrounds them.
_WORK = re.compile(
    r"python[0-9.]*|torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun|vllm|sglang"
    r"|trtllm-serve|text-generation-launcher|lm_eval|axolotl|llamafactory-cli|Rscript|julia"
)
_COPY = re.compile(r"aws|az|azcopy|gcloud|gsutil|hf|huggingface-cli|kaggle|ollama|rclone|s5cmd")
_MINOR = re.compile(
    r"|\[|:|true|awk|cat|cd|chmod|chown|conda|cp|cut|date|deactivate|df|du|echo|env|export|find|free"
    r"|grep|gzip|head|jq|kill|ln|ls|mkdir|mv|nvidia-smi|pkill|popd|printf|pushd|pwd|read|rm|rmdir"
    r"|sed|set|sleep|sort|sync|tail|tar|tee|touch|tr|trap|ts|uniq|unset|wait|wc|xargs"
)
_QUICK = re.compile(r"\S+ (?:-c|-V|--\w+$|-m (?:venv|pip)|setup\.py|auth|conf|list|login|whoami)")
_WRAPPERS = re.compile(
    r"\A(?:(?:\w+\+?=\S*|-\S*|[0-9]\S*|command|env|exec|nice|nohup|numactl|setsid|stdbuf|sudo|time"
    r"|timeout|xvfb-run|(?:conda|pipenv|pixi|poetry|uv) run)(?:\s+|$))*"
)
_ERREXIT = re.compile(r"^[ \t]*set[ \t][^\n;]*?-(?:[a-z]*e|o[ \t]+errexit)", re.MULTILINE)
_PIPEFAIL = re.compile(r"^[ \t]*set[ \t][^\n;]*?o[ \t]+pipefail", re.MULTILINE)
_CHECKS = re.compile(r"\$\?|PIPESTATUS|\btrap\b[^\n]{0,200}?\bERR\b")
_STOPS = re.compile(r"\b(?:wait[ \t]+[^\s;&|)]|p?kill\b|fg\b|jobs\b)")
# What a word at the start of a command does to the blocks around it, and its block from then on.
# What is in a block that ends with ? does not count: conditions, patterns, functions.
_RESERVED = {
    "if": ("open", "if?"), "then": ("", "if"), "elif": ("next", "if?"), "else": ("next", "if"),
    "while": ("open", "loop?"), "until": ("open", "loop?"), "for": ("open", "loop?"),
    "select": ("open", "loop?"), "do": ("", "loop"), "case": ("open", "case?"), "{": ("open", "{"),
    "fi": ("close", ""), "done": ("close", ""), "esac": ("close", ""), "}": ("close", ""),
    "(": ("open", "("), ")": ("close", ""), ";;": ("next", "case?"), "\0": ("open", "function?"),
}  # fmt: skip


class _Command(Struct):
    """A command; `is_long` is work or a transfer, which is no condition."""

    name: str
    offset: int
    rank: int  # of the work, 2; of a transfer, 1; what is not known has that of the work
    is_long: bool


def _rank(name: str) -> int:
    if _COPY.fullmatch(name):
        return 1
    return 0 if _MINOR.fullmatch(name) else 2


def _plain(script: str) -> str:
    """Return the script with as many other characters in place of what contains no command."""
    position = 0
    while here := _HERE_DOCUMENT.search(script, position):
        end = re.compile(rf"^\t*{here[1]}$", re.MULTILINE).search(script, position := here.end())
        if not end:
            return ""
        body = re.sub(r"[^\n]", " ", script[position : end.end()])
        script = script[:position] + body + script[end.end() :]
    script = _QUOTED.sub(lambda found: " _"[not found["blank"]] * len(found[0]), script)
    script = _REDIRECTION.sub(lambda found: " " * len(found[0]), script)
    return _FUNCTION.sub(lambda found: "\0".ljust(len(found[0])), script)


class _Reader:
    """Read a script from its first command to its last; `understood` reports whether it could."""

    def __init__(self, script: str) -> None:
        self.deciding: list[_Command] = []  # one of these decides the exit code so far
        self.replaced: list[_Command] = []  # later commands decide the exit code instead
        self.background: list[_Command] = []
        self.piped: list[tuple[_Command, _Command]] = []  # each with the last command of its pipe
        self._pipe: list[_Command] = []  # the commands of a pipe that has not ended
        self._blocks: list[tuple[str, list[_Command], list[_Command]]] = []
        self._operator = "\n"  # before the next command; "" after a command

        for part in _PART.finditer(_plain(script) + "\n"):
            block, *saved = self._blocks[-1] if self._blocks else ("", [], [])
            if len(self._blocks) > _MAX_DEPTH:
                break
            if block == "case?" and part[0].strip() != "esac":
                block = "case" if part[0] == ")" else block
                self._blocks[-1] = (block, saved[0], saved[1])
            elif part[1]:
                self._end(part[1])
            else:
                self._start(part)
        self.understood = not self._blocks

    def _start(self, part: re.Match[str]) -> None:
        """Read a command, after the words of blocks before it."""
        for word in re.finditer(r"\S+", part[0]):
            if word[0] not in _RESERVED:
                break
            self._change(word[0])
        else:
            return

        text = _WRAPPERS.sub("", " ".join(part[0][word.start() :].split()))
        name = text.partition(" ")[0].rpartition("/")[2]
        rank = _rank(name)
        is_long = bool(rank == 1 or _WORK.fullmatch(name)) and not _QUICK.match(text)
        is_long &= not any(block.endswith("?") for block, *_ in self._blocks)

        if self._operator not in ("&&", "||", "|", "|&"):
            self.replaced += self.deciding
            self.deciding = []
        self.deciding.append(_Command(name, part.start() + word.start(), rank, is_long))
        self._operator = ""

    def _end(self, operator: str) -> None:
        """Read an operator, which ends a command, or opens or closes a block."""
        if not self._operator and self.deciding:
            self._operator = operator
            if operator == "||":  # the script looks at the exit code
                self.deciding = []
                self._pipe = []
            elif operator in ("|", "|&"):
                self._pipe.append(self.deciding.pop())
            elif operator != "&&":
                self.piped += [(command, self.deciding[-1]) for command in self._pipe]
                self._pipe = []
            if operator == "&":
                self.background += self.deciding
                self.deciding = []

        if operator[:2] in _RESERVED:
            self._change(operator[:2])

    def _change(self, word: str) -> None:
        """Open, divide or close a block."""
        change, block = _RESERVED[word]
        if word == "do" and self.deciding and self.deciding[-1].name in ("true", ":"):
            block = "endless?"

        branches = list[_Command]()
        pipe = self._pipe
        if change != "open" and self._blocks:
            _, branches, pipe = self._blocks.pop()

        if change == "next":
            branches = branches + self.deciding
            self.deciding = []
        if change == "close":
            self.deciding = branches + self.deciding
            self._pipe = pipe
            self._operator = ""
        else:
            self._blocks.append((block, branches, pipe))
            self._pipe = []


def find_unnoticed(field: str, script: str) -> tuple[int, str, str] | None:
    """Return the offset of the first command whose failure goes unnoticed, why, and what to add."""
    read = _Reader(script if len(script) <= MAX_SCRIPT else "")
    last = max((command.rank for command in read.deciding), default=0)
    deciding = {command.offset for command in read.deciding}
    errexit = _ERREXIT.search(script)
    checks = _CHECKS.search(script)
    found: list[tuple[_Command, str, str]] = []

    if field == "run" and not _STOPS.search(script):
        reason = "the script does not wait for it"
        hint = "add `wait $!` at the end"
        found += [(command, reason, hint) for command in read.background if command.rank > last]

    if not errexit and not checks:
        reason = "the script goes on after it"
        hint = "start the script with `set -e`"
        found += [(command, reason, hint) for command in read.replaced if command.rank > last]

    for command, end in () if checks or _PIPEFAIL.search(script) else read.piped:
        if end.rank < 2 and (errexit or command.rank > last or end.offset in deciding):
            reason = f"the exit code of the pipe is that of `{printable(end.name)}`"
            found.append((command, reason, "start the script with `set -eo pipefail`"))

    found = [finding for finding in found if finding[0].is_long and read.understood]
    if not found:
        return None
    command, reason, hint = min(found, key=lambda finding: finding[0].offset)
    return command.offset, f"a failure of `{command.name}` goes unnoticed: {reason}", hint
