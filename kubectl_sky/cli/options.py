"""Options that commands share; each group is passed to a command as one value."""

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import output as output_of
from kubectl_sky.errors import Interrupted, UserError
from kubectl_sky.submitting.overrides import FLAGS, Commands, Flag, Overrides, Switch, Texts
from kubectl_sky.words import bounded, label_selectors

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from kubectl_sky.cluster.session import Connection, Session
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.find import Scope

Command = Callable[..., Any]
Option = Callable[[Command], Command]


class ClusterFlags(Struct, frozen=True):
    """The cluster, namespaces and user of a command: kubectl's flags and `--user`."""

    connection: Mapping[str, Any]
    user: str | None
    all_namespaces: bool = False

    @property
    def namespace(self) -> str | None:
        namespace: str | None = self.connection["namespace"]
        return namespace

    def with_defaults(self, context: str | None, namespace: str | None) -> "ClusterFlags":
        """Add the context and namespace of a file; flags take precedence."""
        defaults = {"context": context, "namespace": namespace}
        given = {name: value for name, value in self.connection.items() if value is not None}
        return replace(self, connection={**self.connection, **defaults, **given})

    def session(self) -> "Session":
        """Connect to the cluster.

        The Kubernetes client is imported here, so that other commands start fast.
        """
        from kubectl_sky.cluster.session import Session

        return Session.connect(self.flags())

    def check(self) -> None:
        """Refuse a cluster or namespace that does not exist, before a file is read."""
        if self.namespace or self.connection["cluster"]:
            from kubectl_sky.cluster import access

            session = self.session()
            if self.namespace:
                access.check_namespace(session, self.namespace, "--name")

    def flags(self, note: Callable[[str], object] = output_of.note) -> "Connection":
        """Return the connection settings of the flags.

        Through a server of `kubectl sky api`, a namespace that is not set is one of the user's own.
        """
        from kubectl_sky.actions import identity
        from kubectl_sky.cli import verbosity
        from kubectl_sky.cluster.session import Connection

        verbosity.show_waits(note)
        connection = identity.find_configured(Connection(**self.connection), self.user)
        return _choose_namespace(connection, note) if connection.server_url else connection


def _choose_namespace(connection: "Connection", note: Callable[[str], object]) -> "Connection":
    from kubectl_sky.actions import namespaces
    from kubectl_sky.cluster.session import Session

    session = Session.connect(connection)
    if connection.namespace or session.namespace != "default":
        return connection
    namespace = namespaces.find(session)
    if namespace != session.namespace:
        note(f"namespace {namespace}: you may not list tasks in {session.namespace}")
    return replace(connection, namespace=namespace)


def _single_value(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> str | None:
    """Reject a flag given with different values, so that none wins silently."""
    if len(set(values)) > 1:
        raise click.BadParameter(f"given more than once ({', '.join(values)})", context, option)
    return values[0] if values else None


def parsed(parse: Callable[[str], object]) -> Callable[..., object]:
    """Return the callback of an option that is parsed; a ValueError or UserError is click's."""

    def convert(context: click.Context, option: click.Parameter, value: str | None) -> object:
        try:
            return None if value is None else parse(value)
        except (ValueError, UserError) as error:
            raise click.BadParameter(str(error), context, option) from None

    return convert


def combined(options: Sequence[Option]) -> Option:
    """Return options as one decorator; --help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _names(options: Sequence[Option]) -> list[str]:
    def nothing() -> None: ...

    combined(options)(nothing)
    params: list[click.Parameter] = vars(nothing)["__click_params__"]
    return [str(param.name) for param in params]


def _option_group(options: list[Option], name: str, make: Command) -> Option:
    """Add options to a command and pass their values to it as one argument."""
    keys = _names(options)

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapper(**flags: Any) -> Any:
            values = {key: flags.pop(key) for key in keys}
            return command(**flags, **{name: make(**values)})

        return combined(options)(wrapper)

    return decorate


def _cluster_flags(
    user: str | None,
    all_namespaces: bool = False,
    **connection: Any,
) -> ClusterFlags:
    groups = connection.pop("as_groups")
    return ClusterFlags({**connection, "as_groups": tuple(groups)}, user, all_namespaces)


def flags_of(params: Mapping[str, Any]) -> ClusterFlags:
    """Return the flags that a command line has so far, to complete it."""
    values = {key: params.get(key) for key in _KEYS} | {"as_groups": params.get("as_groups") or ()}
    return _cluster_flags(**values, all_namespaces=bool(params.get("all_namespaces")))


_CENTURY = 100 * 365 * 86_400.0  # seconds: times before it are all the same
_MAX_TIMEOUT = 2_000_000.0  # seconds, which sockets accept


AFTER_VALUES = "kubectl_sky.after_values"  # flags before other arguments, in Context.meta


def _files(context: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
    if value.count("-") > 1:
        raise UserError("standard input cannot be used for multiple arguments")  # as kubectl
    if after_values := context.meta.get(AFTER_VALUES):
        existing = {word for word in value if word == "-" or os.path.exists(word)}  # noqa: PTH110 -- Path raises for long names
        files, _ = with_arguments(value)
        for word, (name, text) in after_values.items():
            if existing and word in files and word not in existing:
                _refuse_second_value(context, word, name, text)
    return value


def _refuse_second_value(context: click.Context, word: str, name: str, text: str) -> None:
    """Raise UserError if a word that is no file looks like one more value of the flag before it.

    The value itself may be a secret.
    """
    params = (param for param in context.command.params if name in param.opts)
    option = next(params, None)
    if not isinstance(option, click.Option) or Path(word).suffix in (".yaml", ".yml"):
        return
    if "V,V" in (option.metavar or ""):
        hint = f"separate the values of {name} with commas"
    elif word.startswith("="):
        hint = f"write {name} NAME=VALUE, without spaces"
    elif option.multiple and ("=" in text) == ("=" in word):
        hint = f"write {name} before each value"
    elif "=" in text or not option.multiple:
        hint = f"put the value of {name} into quotes"
    else:
        return
    raise UserError(f'"{word}" is no file, and {name} takes one word', hint)


_argument = functools.partial(click.argument, "files", nargs=-1, metavar="FILE...", callback=_files)
files = _argument(required=True)
optional_files = _argument()


def with_arguments(files: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the task files, and the arguments if the first is a batch script of Slurm.

    As for sbatch, all words after such a script are its arguments.
    """
    from kubectl_sky.actions.documents import is_batch_file

    return (files[:1], files[1:]) if files and is_batch_file(files[0]) else (files, ())


class Duration(click.ParamType[timedelta]):
    """Durations in kubectl's format: 90s, 5m, 1h30m; a plain number is in seconds."""

    name = "duration"
    _UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}  # noqa: RUF012 -- a table

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Parse a duration; the error for an invalid one shows the format."""
        if isinstance(value, timedelta):
            return value
        text = str(value)
        if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text):
            text += "s"
        if not re.fullmatch(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[smhd]))+", text):
            knows_time = ctx and any("--since-time" in item.opts for item in ctx.command.params)
            is_time = knows_time and re.match(r"[0-9]{4}-", text)
            from kubectl_sky.words import amounts

            similar = amounts.duration(text)
            use = f'did you mean "{similar}"?' if similar else "use 90s, 5m or 1h30m"
            use = f"for a time, use --since-time {text}" if is_time else use
            self.fail(f'"{text}" is not a duration; {use}', param, ctx)
        parts = re.findall(r"([0-9.]+)(ms|[smhd])", text)
        seconds = sum(float(number) * self._UNITS[unit] for number, unit in parts)
        return timedelta(seconds=min(seconds, _CENTURY))


DURATION = Duration()


class _Timeout(Duration):
    """A duration for urllib3, in seconds; None for 0, which means the default as in kubectl."""

    def convert(  # type: ignore[override]
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | None:
        return min(super().convert(value, param, ctx).total_seconds(), _MAX_TIMEOUT) or None


_TIMEOUT = _Timeout()


_NAMESPACE = click.option("-n", "--namespace", help="Namespace (default: that of the context).")
_ALL_NAMESPACES = click.option(
    "-A", "--all-namespaces", is_flag=True, help="Include all namespaces."
)
_USER = click.option("--user", help="Owner (default: that of `auth whoami`).")


# Below the options of the command itself.
COMMON = ("namespace", "all_namespaces", "user", "all_users")


class SharedOption(click.Option):
    """An option that most commands have, which only `kubectl sky options` lists."""


def name_value(param: click.Parameter) -> None:
    """Name the value of an option in --help after the option: `--image IMAGE`, not TEXT."""
    if isinstance(param, click.Option) and not param.metavar and not param.is_flag:
        if param.type is click.STRING:
            param.metavar = max(param.opts, key=len).lstrip("-").rpartition("-")[2].upper()
        elif isinstance(param.type, (click.types.IntParamType, click.IntRange)):
            param.metavar = "N"


def _check_server(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Return an address; a word is not one, but what users of SkyPilot mean by -s."""
    if value and value.isalnum() and not context.resilient_parsing:
        message = f'"{value}" is not a server address such as https://HOST:PORT'
        raise click.BadParameter(message, context, option)
    return value


_connection_option = functools.partial(click.option, cls=SharedOption)
_CONNECTION = [
    _connection_option("--context", help="Context of the kubeconfig (default: the current one)."),
    _connection_option(
        "--kubeconfig",
        metavar="FILE",
        help="Path of the kubeconfig (default: $KUBECONFIG, then ~/.kube/config).",
    ),
    _connection_option(
        "--cluster", help="Cluster of the kubeconfig (default: that of the context)."
    ),
    _connection_option(
        "-s",
        "--server",
        metavar="URL",
        callback=_check_server,
        help="URL of the API server (default: that of the cluster).",
    ),
    _connection_option(
        "--server-url",
        envvar=["KUBECTL_SKY_SERVER", "K8S_CLI_API_URL"],
        metavar="URL",
        help="Go through the `kubectl sky api` server at URL (default: $KUBECTL_SKY_SERVER).",
    ),
    _connection_option(
        "--certificate-authority", metavar="FILE", help="CA of the server's certificate."
    ),
    _connection_option(
        "--client-certificate", metavar="FILE", help="Certificate to authenticate with."
    ),
    _connection_option("--client-key", metavar="FILE", help="Key of the client certificate."),
    _connection_option(
        "--tls-server-name",
        metavar="NAME",
        help="Name that the server's certificate must have (default: that of the URL).",
    ),
    _connection_option(
        "--token", help="Bearer token. Visible in the process list: prefer the kubeconfig."
    ),
    _connection_option("--as", "as_user", metavar="USER", help="User to impersonate."),
    _connection_option("--as-uid", metavar="UID", help="UID to impersonate."),
    _connection_option(
        "--as-group", "as_groups", multiple=True, help="Group to impersonate; repeatable."
    ),
    _connection_option(
        "--request-timeout",
        type=_TIMEOUT,
        metavar="DURATION",
        help="Timeout of one request: 5s, 1m, a number of seconds, 0 for the default.",
    ),
    _connection_option(
        "--insecure-skip-tls-verify",
        "insecure",
        is_flag=True,
        default=None,
        help="Do not verify the server's certificate.",
    ),
]
_KEYS = _names([_NAMESPACE, _USER, *_CONNECTION])

connection = _option_group(
    [_NAMESPACE, *_CONNECTION], "cluster", functools.partial(_cluster_flags, user=None)
)
cluster = _option_group([_NAMESPACE, _USER, *_CONNECTION], "cluster", _cluster_flags)
cluster_all_namespaces = _option_group(
    [_NAMESPACE, _ALL_NAMESPACES, _USER, *_CONNECTION], "cluster", _cluster_flags
)


def task_flag(flag: Flag) -> Option:
    """Return the option of a flag."""
    names = [flag.option, *filter(None, [flag.alias]), flag.name]
    keywords: dict[str, Any] = {"metavar": flag.metavar, "help": flag.help}
    if flag.type is bool:
        keywords["is_flag"] = True
    elif flag.type == Switch:
        names[0] = f"{flag.option}/{flag.option.replace('--', '--no-')}"
        keywords["default"] = None
    elif flag.type == Texts:
        keywords["multiple"] = True
    elif flag.choices:
        keywords["type"] = click.Choice(flag.choices)
    elif flag.single:
        keywords |= {"multiple": True, "callback": _single_value}
    return click.option(*names, **keywords)


def _task_flags(commands: Commands) -> Option:
    flags = [task_flag(flag) for flag in FLAGS if flag.commands <= commands]
    return _option_group(flags, "overrides", Overrides)


(as_task,) = [task_flag(flag) for flag in FLAGS if flag.name == "as_task"]
node = _task_flags(Commands.ANY)
new_task = _task_flags(Commands.NEW_TASK)
task = _task_flags(Commands.TASK_FILE)


_TEMPLATES = (output_of.JSONPATH, output_of.COLUMNS)
_TEMPLATE_FILE = re.compile("(?P<form>jsonpath|custom-columns)-file=(?P<path>.+)", re.DOTALL)
_MAX_TEMPLATE = 1024 * 1024  # bytes of a file
_GO_TEMPLATES = ("go-template", "template")  # of kubectl


class _Format(click.ParamType[str | None]):
    """An output format of a command, or one of kubectl's with a template."""

    name = "format"

    def __init__(self, formats: tuple[str, ...], paths: bool) -> None:
        self.templates = _TEMPLATES if paths else ()
        self.formats = (*formats, *(f"{template}…" for template in self.templates))

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """Return the formats as --help shows them; its text lists those with templates."""
        return "FORMAT" if self.templates else f"[{'|'.join(self.formats)}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        formats = (text.rstrip("…") for text in self.formats)
        return [CompletionItem(text) for text in formats if text.startswith(incomplete)]

    def _read(self, form: str, path: Path) -> str:
        """Return the template in a file; that of columns has a line of names and one of paths."""
        try:
            text = bounded.read(path.expanduser(), _MAX_TEMPLATE).decode(errors="replace")
        except OSError as error:
            self.fail(f"{path}: {bounded.reason(error)}")
        except RuntimeError:
            self.fail(f"{path}: home folder not found")
        if form == "jsonpath":
            return text
        lines = [line.split() for line in text.splitlines()]
        if len(lines) != 2 or len(lines[0]) != len(lines[1]):
            self.fail(f"{path}: expected a line of names, and one with a path for each")
        return ",".join(f"{name}:{path}" for name, path in zip(*lines, strict=True))

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | None:
        """Check a format; the error for an unknown one lists the supported formats.

        As in kubectl, a table that has no more columns is printed as it is with `wide`.
        """
        text = str(value)
        if self.templates and (given := _TEMPLATE_FILE.fullmatch(text)):
            text = f"{given['form']}={self._read(given['form'], Path(given['path']))}"
        if text == "wide" and self.templates and text not in self.formats:
            return None
        if not text.startswith(self.templates) and text not in self.formats:
            if text.startswith(_GO_TEMPLATES):
                other = ", or -o jsonpath=…" if self.templates else ""
                self.fail(f"Go templates are not supported; use -o json | jq{other}", param, ctx)
            listed = ", ".join(self.formats)
            self.fail(f'"{text}" is not one of {listed}', param, ctx)
        return text


def _hide_headers(context: click.Context, option: click.Parameter, value: bool) -> None:
    output_of.style.no_headers = value


no_headers = click.option(
    "--no-headers",
    is_flag=True,
    expose_value=False,
    callback=_hide_headers,
    help="Print tables without the line of column names.",
)


def _set_form(context: click.Context, option: click.Parameter, form: str | None) -> str | None:
    output_of.style.is_template = bool(form and form.startswith(output_of.JSONPATH))
    return form


def output(*formats: str, paths: bool = True) -> Option:
    kind = _Format(formats, paths)
    text = f"Format: {', '.join(kind.formats)}." if paths else "Output format."
    return click.option(
        "-o", "--output", "form", type=kind, default=None, callback=_set_form, help=text
    )


DRY_RUNS = {"none": "", "client": " (dry run)", "server": " (server dry run)"}
dry_run = click.option(
    "--dry-run",
    type=click.Choice(list(DRY_RUNS)),
    is_flag=False,
    flag_value="client",
    default="none",
    help="client: print; server: the cluster checks.",
)
dry_run_delete = click.option(
    "--dry-run",
    type=click.Choice(["none", "client"]),
    is_flag=False,
    flag_value="client",
    default="none",
    show_default=True,
    help="client: only print what would be deleted (without a value).",
)


waits = click.option(
    "--wait",
    "waits",
    type=click.Choice(["true", "false"]),
    is_flag=False,
    flag_value="true",
    default="true",
    show_default=True,
    callback=lambda context, option, value: value == "true",
    help="Wait up to 30 seconds until all is gone.",
)


accepted_yes = click.option(
    "-y",
    "--yes",
    is_flag=True,
    expose_value=False,
    help="Accepted, as scripts for SkyPilot have it: nothing is asked.",
)


def sending(detach: str, limited: str) -> Option:
    """Return the options of commands that send a task and wait; the texts are for --help."""
    return combined(
        [
            click.option("-d", "--detach", is_flag=True, help=detach),
            accepted_yes,
            dry_run,
            click.option(
                "--show-secrets",
                is_flag=True,
                help="With --dry-run -o yaml: print secret values.",
            ),
            click.option("--wait-timeout", type=DURATION, help=f"Time limit for {limited}."),
        ]
    )


strict = click.option("--strict", is_flag=True, help="Treat warnings as errors.")
all_users = click.option("--all-users", is_flag=True, help="Include those of other users.")
yes = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def _parse_labels(text: str) -> Callable[[Mapping[str, str]], bool]:
    if not text.strip("\0 "):  # of a variable that is not set: it would match everything
        raise ValueError(
            "the selector is empty; for everything, use --all (with list, leave out -l)"
        )
    if text.isdecimal():
        raise ValueError(f"-l selects by labels; use --limit {text}")
    return label_selectors.parse(text)


labels = click.option(
    "-l",
    "--selector",
    "labels",
    callback=parsed(_parse_labels),
    metavar="SELECTOR",
    help="Only those with these labels: team=a, team!=b, 'team in (a,b)'.",
)


def _choose(references: tuple[str, ...], word: str, **filters: Any) -> "Choice":
    from kubectl_sky.tasks.choice import Choice

    choice = Choice(references, **filters)
    if choice.is_filter and (references or (filters["labels"] and filters["everything"])):
        raise UserError(f"{word}, -l and --all exclude each other", "use one of them")
    return choice


def _several(argument: str, metavar: str, words: str) -> Option:
    """Return TASK..., -l and --all: one value, a `Choice`."""
    return _option_group(
        [
            click.argument(argument, nargs=-1, metavar=f"[{metavar}...]"),
            labels,
            click.option("--all", "everything", is_flag=True, help=f"All {words}."),
        ],
        "choice",
        lambda **values: _choose(values.pop(argument), metavar, **values),
    )


tasks = _several("references", "TASK", "your tasks in the namespace")
volumes = _several("volumes", "VOLUME", "your volumes in the namespace")


def scope(session: "Session", cluster: ClusterFlags, all_users: bool) -> "Scope":
    """Return the namespace and owner to search.

    Asks the cluster for your identity if it is needed.
    """
    from kubectl_sky.actions import identity
    from kubectl_sky.tasks import find, submissions

    namespace = None if cluster.all_namespaces else session.namespace
    user = None if all_users else identity.user(session, cluster.user)
    return find.Scope(namespace, user, submissions.newest(output_of.note))


def location(session: "Session", cluster: ClusterFlags) -> str:
    """Return where tasks were searched, as messages say it."""
    return "any namespace" if cluster.all_namespaces else f"namespace {session.namespace}"


def confirm(question: str, flag: str = "--yes") -> None:
    """Ask the user for confirmation.

    Raises UserError if the answer is no, or if stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UserError(f"{question} (stdin is not a terminal)", f"confirm with {flag}")
    # Names of the cluster may have control characters and line breaks.
    try:
        is_confirmed = click.confirm(output_of.cell(question), err=True)
    except click.Abort:  # which leaves the cursor behind the question
        raise Interrupted("interrupted") from None
    if not is_confirmed:
        raise UserError("cancelled")
