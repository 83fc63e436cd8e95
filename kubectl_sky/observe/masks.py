"""Mask secrets in texts that leave with a ticket: known values, and texts that look like secrets.

It masks by form, so it may mask too much; a mask says REDACTED, and names stay.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words.secret import REDACTED

V = TypeVar("V")

_MAX = 2000  # characters of one secret, but for keys in several lines
_MIN_VALUE = 4  # characters of a value that is replaced within words, too
_MIN_PART = 6  # characters at the end of a text that may be a part of a value that was cut
_MIN_LINE = 8  # characters of a line that is replaced as its value is

# Parts of names: `HF_TOKEN`, `--api-key`, `accessKey`.
_PARTS = {
    "apikey", "auth", "authorization", "bearer", "cert", "certificate", "conn",
    "connectionstring", "connstr", "cookie", "cookies", "cred", "credential", "credentials",
    "creds", "dsn", "hmac", "hook", "jwt", "key", "keys", "kubeconfig", "license", "netrc",
    "otp", "pass", "passphrase", "passwd", "password", "passwords", "pat", "pem", "pgpass",
    "pin", "private", "pw", "pwd", "salt", "sas", "secret", "secrets", "session", "sid", "sig",
    "signature", "token", "tokens", "totp", "wandb", "webhook",
}  # fmt: skip
_WITHIN = ("passw", "passphrase", "secret", "credential", "apikey", "token", "cookie", "webhook")
_ENDS = ("pass", "pwd", "key", "auth", "jwt", "dsn", "pgpass")
_INNOCENT = re.compile(r"tokeni[sz]\w*|(?:error|exception|warning|failure)$", re.IGNORECASE)
_COUNTED = {"token", "tokens", "key", "keys"}  # with a number, they are counted: --max-tokens 512
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Values that say nothing: references to variables, and words of settings.
_HARMLESS = re.compile(
    r"[\"']?(?:\$\{?\w+\}?|\$\{\{[^{}\n]*\}\}|true|false|null|none|yes|no|REDACTED)?[\"',;})]*",
    re.IGNORECASE,
)

_FORMS = {
    "private keys": (
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>[\s\S]*?)(?:-----END|\Z)",
        r"(?m)^[ \t]*(?P<secret>[A-Za-z0-9+/]{60,}={0,2})[ \t]*$",
    ),
    "passwords in URLs": (
        rf"://[^\s/:@'\"]{{0,200}}:(?P<secret>[^\s'\"<>]{{1,{_MAX}}})@",
        r"\bjdbc:oracle:\w{1,9}:[^\s/@]{1,200}/(?P<secret>[^\s@]{1,200})@",
        r"https?://[^\s/]{1,253}/t/(?P<secret>[^\s/]{8,200})/",
        r"https?://(?P<secret>[^\s/:@'\"]{1,500})(?::[^\s/@'\"]{0,200})?@",
    ),
    "tokens": (
        r"(?<![A-Za-z0-9])(?P<secret>(?:gh[oprsu]_|github_pat_|gl[a-z]{1,6}-|npm_|pypi-|hvs\.|SG\."
        r"|dop_v1_|dckr_[a-z]{2,4}_|shp[a-z]{2}_|lin_api_|sntry[a-z]_|nvapi-|xai-|ya29\.|r8_|ops_"
        r"|xox[a-z]-|xapp-|AKIA|ASIA|AIza|AGE-SECRET-KEY-|[prs]k_(?:live|test)_)[\w.+/=-]{6,2000})",
        r"(?<![A-Za-z0-9])(?P<secret>(?:hf_|sk-|gsk_|dapi|pat-)(?=[A-Za-z_-]{0,60}\d)[\w-]{8,2000})",
        r"(?<![A-Za-z0-9])(?P<secret>eyJ[\w-]{6,}(?:\.[\w-]{1,2000}){0,4})",
        r"(?i)\bbearer[ \t]+(?P<secret>[^\s\"']{1,2000})",
        r"(?i)\bbasic[ \t]+(?P<secret>[A-Za-z0-9+/=_-]{8,2000})",
        # Long random text: base64 with small and capital letters and digits.
        r"(?<![\w/+=.-])(?P<secret>(?=[a-zA-Z+]*\d)(?=[a-z0-9+]*[A-Z])(?=[A-Z0-9+]*[a-z])"
        r"[A-Za-z0-9+]{32,2000}={0,2})(?![\w/.-])",
    ),
    "words after flags": (
        r"(?<![\w-])(?:-[a-zA-Z]{0,9}[uU]|--user|--proxy-user)[ \t=]*[\"']?[^\s:\"']{0,200}:"
        r"(?P<secret>(?!//)[^\s\"']+)",
        r"--from-literal[ \t=]+[\"']?[\w.-]{1,200}=[\"']?(?P<secret>[^\s\"']+)",
        r"\bsshpass[ \t]+-p[ \t]*(?P<secret>\S+)",
        r"\b(?:mysql|mariadb)\w*[^\n|;&]{0,300}?[ \t]-p(?P<secret>[^\s-]\S*)",
        r"[ \t]-[uU][ \t]*[^\s,:%]{1,200}[,%](?P<secret>\S+)",
        r"\b(?:7z\w?|unrar|useradd|usermod)\b[^\n|;&]{0,300}?[ \t]-p[ \t]*(?P<secret>[^\s-]\S*)",
        r"\bsqlcmd\b[^\n|;&]{0,300}?[ \t]-P[ \t]*(?P<secret>\S+)",
        r"\bmc[ \t]+alias[ \t]+set(?:[ \t]+\S{1,200}){3}[ \t]+(?P<secret>\S+)",
        r"\bhtpasswd[ \t]+-\w{0,9}b\w{0,9}(?:[ \t]+\S{1,200}){2}[ \t]+(?P<secret>\S+)",
        r"\b(?:ssh-keygen|zip|unzip|openssl)\b[^\n|;&]{0,300}?[ \t]-[NPkK][ \t]+(?P<secret>\S+)",
        r"\bredis-cli[^\n|;&]{0,300}?[ \t]-a[ \t]+(?P<secret>\S+)",
        r"\b(?:mongo\w*|login)[^\n|;&]{0,300}?[ \t]-p[ \t]*(?P<secret>[^\s-]\S*)",
        r"\blogin[ \t]+(?:--?[\w-]+[ \t]+){0,9}"
        r"(?P<secret>(?=[^\s./]{0,200}\d)[^\s./|;&-][^\s./|;&]{7,})",
    ),
    "words after names": (
        r"(?im)(?:^|\blogin[ \t]+\S{1,200})[ \t]*\b(?:password|passwd)[ \t]+"
        r"(?P<secret>(?!->)[^\s=:]\S*)",
        r"(?m)^[ \t]*stringData:[ \t]*(?P<secret>(?:\n[ \t]+\S[^\n]*)+)",
        r"(?i)\b(?:(?:auth)?token|password|passwd|passphrase|api[ _-]?key|pin|jwt)"
        r"(?:[ \t]+(?:is|was|of))?[ \t]+[\"'(<]?"
        r"(?P<secret>(?!\w{1,50}=)(?=\S{0,200}\d)[^\s\"'<>()]{6,2000})",
        r"\$\{(?i:\w{0,80}(?:token|key|pass|pwd|secret|cred|auth|dsn|jwt)\w{0,80}):?[-=+](?P<secret>[^}\n]+)",
    ),
}
_COMPILED = {kind: tuple(map(re.compile, forms)) for kind, forms in _FORMS.items()}

_URL = re.compile(r"https?://(?P<host>[^\s/\"'<>]{1,253})/(?P<secret>[^\s\"'<>]{1,2000})")
_HOOK = re.compile(
    r"hook|discord|slack|logic\.azure|telegram|chat\.googleapis|ifttt|ntfy|opsgenie|pagerduty|zapier",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"(?:(?<![\w-])-H|--header)[ \t=]*[\"']?(?P<name>[\w-]{1,100}):[ \t]*"
    r"(?P<secret>(?:\\[\"']|[^\"'\n])+)"
)
_PLAIN_HEADERS = {"accept", "content-type", "content-length", "host", "user-agent"}

_NAME = r"(?P<name>[A-Za-z_][\w.-]{0,99})"
_ASSIGNED = re.compile(
    rf"(?<![\w.]){_NAME}[\\\"'\])]{{0,4}}[ \t]{{0,9}}(?:[!:?+|]?={{1,3}}>?|->|:)[ \t]{{0,9}}"
)
_FLAG = re.compile(rf"(?<![\w-])--?{_NAME}[ \t]+(?!-)")
_TAG = re.compile(rf"<{_NAME}>(?=[^<\s])")
_PAIR = re.compile(rf"[\"']{_NAME}[\"']\s{{0,9}},\s{{0,9}}(?=[\"'])")
_ENTRY = re.compile(  # of Kubernetes: {name: TOKEN, value: X}
    rf"\bname[\"']?[ \t]*:[ \t]*[\"']?{_NAME}[\"']?[ \t]*,?\s{{0,40}}[\"']?value[\"']?[ \t]*:[ \t]*"
)
_INSTRUCTION = re.compile(rf"(?m)^[ \t]*ENV[ \t]+{_NAME}[ \t]+")  # of a Containerfile
_SET = re.compile(
    r"\b(?:(?:set|setenv|config|configure)(?:[ \t]+--?[\w-]{1,50}){0,5}[ \t]+){1,3}"
    r"(?P<name>[\w./:-]{1,200})[ \t]+"
)
_NAMED = (_SET, _FLAG, _ENTRY, _INSTRUCTION, _ASSIGNED, _TAG, _PAIR)
_QUOTE = re.compile(r"\\*[\"'`]")

# Commands and files that take a secret: `echo X | docker login`, `cat > ~/.netrc <<EOF`.
_TAKES = re.compile(
    r"passw|pgpass|token|secret|cred|login|netrc|auth|\.ssh|id_[a-z0-9]+|kaggle|key|stdin|sudo"
    r"|gpg|openssl|base64|\.env\b|npmrc|pypirc|vault",
    re.IGNORECASE,
)
_ECHO = re.compile(r"\b(?:echo|printf)\b(?P<secret>[^|>;&\n]{1,2000})[|>](?P<to>[^\n]{1,500})")
_HERE = re.compile(r"(?m)^(?P<to>[^\n]{0,500})<<<[ \t]*(?P<secret>[^\n|;&]+)")
_DOCUMENT = re.compile(r"<<-?[ \t]*[\"'\\]?(?P<end>\w{1,50})")


def smells(name: str) -> bool:
    """Return whether the value of a variable, field or flag of this name may be a secret."""
    if _INNOCENT.search(name):
        return False
    word = re.sub(r"[^A-Za-z0-9]", "", name).lower()
    parts = {part.lower() for part in _PART.findall(name)}
    return bool(parts & _PARTS) or word.endswith(_ENDS) or any(it in word for it in _WITHIN)


def of_task(task: TaskStatus, mask: Callable[[str], str]) -> TaskStatus:
    """Return a task with masked messages and causes."""
    nodes = tuple(replace(node, message=mask(node.message)) for node in task.nodes)
    causes = {reason: mask(text) for reason, text in task.causes.items()}
    return replace(task, nodes=nodes, causes=causes)


def of_lines(lines: Sequence[str], mask: Callable[[str], str]) -> tuple[str, ...]:
    """Return masked lines of a log; a secret may have several."""
    return tuple(mask("\n".join(lines)).split("\n")) if lines else ()


def of_messages(value: V, mask: Callable[[str], str]) -> V:
    """Return an object with masked messages: those of containers, conditions and events."""
    changed: Any = value
    if isinstance(value, tuple):
        changed = tuple(of_messages(item, mask) for item in value)
    elif isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = replace(
            value,
            **{
                name: mask(item)
                if name == "message" and isinstance(item, str)
                else of_messages(item, mask)
                for name, item in fields.items()
            },
        )
    return changed  # type: ignore[no-any-return]


class Mask:
    """Replace secrets in texts. `values` are known ones, by the kind that the report names.

    A value counts as it is, and each of its long lines; not in another encoding. A text may begin
    or end within a value.
    """

    def __init__(self, values: Iterable[tuple[str, str]] = ()) -> None:
        self._kinds: dict[str, str] = {}
        for kind, value in values:
            lines = [line.strip() for line in value.splitlines()]
            texts = [value.strip(), *(line for line in lines if len(line) >= _MIN_LINE)]
            self._kinds |= {text: kind for text in texts if text}
        longest_first = sorted(self._kinds, key=len, reverse=True)
        self._values = re.compile("|".join(map(_value_form, longest_first)) or r"(?!)")
        self._masked: set[tuple[str, str]] = set()

    @property
    def counts(self) -> Counter[str]:
        """How many different texts were masked, by kind."""
        return Counter(kind for kind, _ in self._masked)

    def hide(self, kind: str, value: object) -> str:
        self._masked.add((kind, str(value)))
        return REDACTED

    def __call__(self, text: str) -> str:
        text = self._without_parts(text)
        text = self._values.sub(lambda match: self.hide(self._kinds[match[0]], match[0]), text)

        for kind, forms in _COMPILED.items():
            for form in forms:
                text = self._sub(kind, form, text)

        text = self._sub("webhook URLs", _URL, text, lambda it: bool(_HOOK.search(it[0])))
        header = "values of headers"
        text = self._sub(header, _HEADER, text, lambda it: it["name"].lower() not in _PLAIN_HEADERS)
        for form in (_ECHO, _HERE):
            text = self._sub(
                "words for programs", form, text, lambda it: bool(_TAKES.search(it["to"]))
            )

        text = self._without_documents(text)
        for form in _NAMED:
            text = self._without_values(form, text)
        return text

    def _without_parts(self, text: str) -> str:
        """Mask the end of a value that a text begins with, and the beginning of one at its end."""
        for value, kind in self._kinds.items():
            begin = value.find(text[:_MIN_PART]) if len(text) >= _MIN_PART else -1
            if begin > 0 and text.startswith(value[begin:]):
                text = self.hide(kind, value) + text[len(value) - begin :]
            end = value.rfind(text.rstrip("…")[-_MIN_PART:]) if len(text) >= _MIN_PART else -1
            part = value[: end + _MIN_PART]
            if end >= 0 and part != value and text.rstrip("…").endswith(part):
                text = text.rstrip("…")[: -len(part)] + self.hide(kind, value)
        return text

    def _sub(
        self,
        kind: str,
        form: re.Pattern[str],
        text: str,
        selects: Callable[[re.Match[str]], bool] = lambda _: True,
    ) -> str:
        def hidden(match: re.Match[str]) -> str:
            secret = match["secret"]
            if _HARMLESS.fullmatch(secret.strip()) or not selects(match):
                return match[0]
            start, end = (position - match.start() for position in match.span("secret"))
            return match[0][:start] + self.hide(kind, secret) + match[0][end:]

        return form.sub(hidden, text)

    def _without_values(self, form: re.Pattern[str], text: str) -> str:
        """Mask the values that follow names which smell."""
        parts = list[str]()
        position = 0
        for match in form.finditer(text):
            if match.start() < position or not smells(match["name"]):
                continue
            end = _value_end(text, match.end(), whole_line=match[0].rstrip().endswith(":"))
            value = text[match.end() : end]
            counted = value.strip("\"',;").isdecimal() and _is_counted(match["name"])
            if not (_HARMLESS.fullmatch(value.strip()) or counted):
                parts += [text[position : match.end()], self.hide("values after names", value)]
                position = end
        return "".join([*parts, text[position:]])

    def _without_documents(self, text: str) -> str:
        """Mask here-documents of commands that take a secret."""
        lines = text.split("\n")
        end = ""
        start = 0

        for index, line in enumerate(lines):
            if end and line.strip() != end:
                continue
            if end:
                body = lines[start:index]
                lines[start:index] = [
                    self.hide("words for programs", it) if it else it for it in body
                ]
                end = ""
            elif (match := _DOCUMENT.search(line)) and _TAKES.search(line):
                end = match["end"]
                start = index + 1
        return "\n".join(lines)


def _is_counted(name: str) -> bool:
    parts = {part.lower() for part in _PART.findall(name)}
    return bool(parts & _COUNTED) and not parts & (_PARTS - _COUNTED)


def _value_form(value: str) -> str:
    pattern = re.escape(value)
    return pattern if len(value) >= _MIN_VALUE else rf"(?<!\w){pattern}(?!\w)"


def _value_end(text: str, start: int, *, whole_line: bool) -> int:
    """Return where a value ends: with the word of a shell, or with the line.

    The quote around both name and value ends it, too: `echo "token: X"`.
    """
    head = text[text.rfind("\n", 0, start) + 1 : start].replace('\\"', "").replace("\\'", "")
    around = next((quote for quote in "\"'" if head.count(quote) % 2), "")

    position = start
    for position in _steps(text, start, around):
        if position >= len(text) or text[position] == "\n":
            break
        if text[position].isspace() and (not whole_line or _QUOTE.match(text, start)):
            break
        if around and text.startswith(around, position):
            break
        if position > start and text[position - 1] in "\"'" and text[position] in ",})]":
            break

    if whole_line and re.fullmatch(r"[|>][-+\d]*", text[start:position].strip()):
        return _block_end(text, start, position)
    return position


def _steps(text: str, start: int, around: str) -> Iterator[int]:
    """Yield the positions between the characters, quoted texts and `$(…)` of a word."""
    position = start
    while position < len(text):
        yield position
        opening = _QUOTE.match(text, position)
        if opening and opening[0] != around:
            end = text.find(opening[0], opening.end())
            if end < 0:  # to the end of the line
                line = text.find("\n", position)
                position = line if line >= 0 else len(text)
            else:
                position = end + len(opening[0])
        elif text.startswith("$(", position) or (position == start and text[position] == "("):
            line = text.find("\n", position) % (len(text) + 1)
            position = text.rfind(")", position, line) + 1 or line
        else:
            position += 2 if text[position] == "\\" else 1
    yield len(text)


def _block_end(text: str, start: int, end: int) -> int:
    """Return the end of a block of YAML: lines that are indented more than that of its name."""
    line = text[text.rfind("\n", 0, start) + 1 : start]
    indent = len(line) - len(line.lstrip())
    block = re.compile(rf"(?:\n[ \t]{{{indent + 1},}}[^\n]*|\n[ \t]*(?=\n))*").match(text, end)
    return block.end() if block else end
