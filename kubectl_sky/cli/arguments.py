"""Rewrite kubectl's forms of flags to the forms that click reads.

kubectl accepts `-n=team`, `--watch=true` and `-A=false`, and flags before the command. A flag with
an optional value, such as `--dry-run`, takes the next argument only if that is one of its values.
"""

from collections.abc import Container, Iterable, Iterator, Sequence

import click

_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")

OF_PROGRAM = "write the options of CMD after --"
Flag = tuple[str, ...]  # a flag as click reads it: its name, and its value if it takes one


class Arguments:
    """The arguments of a command, as flags and other arguments.

    Without `interspersed`, the flags end at the first other argument. `before_dashes` is the number
    of other arguments before `--`; None without `--`. `second` is the position of the second other
    argument, if any, and `last_flag` that of the last flag. `after_values` are the other arguments
    that follow the value of a flag, each with that flag. `one_dash` is the first long flag that has
    only one dash. Unknown flags are left for click to refuse. Raises BadOptionUsage.
    """

    def __init__(
        self,
        params: Sequence[click.Parameter],
        arguments: Sequence[str],
        *,
        interspersed: bool = True,
    ) -> None:
        self._options = {
            name: param
            for param in params
            if isinstance(param, click.Option)
            for name in (*param.opts, *param.secondary_opts)
        }

        self._remaining = list(arguments)
        self.flags: list[Flag] = []
        self.others: list[str] = []
        self.before_dashes: int | None = None
        self.second: int | None = None
        self.last_flag = -1
        self.after_values: dict[str, Flag] = {}
        self.one_dash = ""
        last: Flag = ()  # the flag that ends before the next word

        while self._remaining and (interspersed or not self.others):
            position = len(arguments) - len(self._remaining)
            word = self._remaining.pop(0)
            if word == "--":
                self.before_dashes = len(self.others)
                break
            if word.startswith("--"):
                self.last_flag = position
                name, equals, text = word.partition("=")
                value = text if equals else None
                self._add(name, value)
            elif len(word) > 1 and word.startswith("-"):
                self.last_flag = position
                name = word.partition("=")[0]
                if not self.one_dash and len(name) > 2 and f"-{name}" in self._options:
                    self.one_dash = word
                for name, letters in self._split(word[1:]):
                    self._add(name, letters)
            else:
                if len(last) == 2:
                    self.after_values[word] = last
                self.others.append(word)
                self.second = position if len(self.others) == 2 else self.second
            last = self.flags[-1] if self.last_flag == position and self.flags else ()
        self.others += self._remaining

    @property
    def rewritten(self) -> list[str]:
        """The arguments in click's forms."""
        return [*(word for flag in self.flags for word in flag), "--", *self.others]

    def _split(self, letters: str) -> Iterator[tuple[str, str | None]]:
        """Split short flags: `-it` is two flags, and `-ojson` and `-o=json` one with a value."""
        while letters:
            name = f"-{letters[0]}"
            letters = letters[1:]
            option = self._options.get(name)
            if letters.startswith("=") or (option and not option.is_flag and not option.count):
                value = letters.removeprefix("=") if letters else None
                yield name, value
                return
            yield name, None

    def _add(self, name: str, value: str | None) -> None:
        option = self._options.get(name)
        if option is None:
            self.flags.append((name,) if value is None else (f"{name}={value}",))
        elif option.is_flag and value is not None:
            self._set(option, name, value)
        elif option.is_flag or option.count:
            self.flags.append((name,))
        elif value is not None:
            self.flags.append((name, value))
        elif isinstance(option.type, click.Choice) and isinstance(option.flag_value, str):
            is_chosen = self._remaining and self._remaining[0] in option.type.choices
            choice = self._remaining.pop(0) if is_chosen else option.flag_value
            self.flags.append((name, choice))
        elif self._remaining:
            self.flags.append((name, self._remaining.pop(0)))
        else:
            raise click.BadOptionUsage(name, f'Option "{name}" requires an argument.')

    def _set(self, option: click.Option, name: str, value: str) -> None:
        """Set a flag to true or false, as in `--watch=false`; the last one counts."""
        if value not in (*_TRUE, *_FALSE):
            raise click.BadOptionUsage(name, f"{name}={value}: use {name}=true or =false")
        names = {*option.opts, *option.secondary_opts}
        self.flags = [flag for flag in self.flags if flag[0] not in names]
        if value in _TRUE:
            self.flags.append((name,))


def without_secrets(words: Iterable[str], dropped: Container[str] = ("--token",)) -> Iterator[str]:
    """Yield words without values of secrets: of `--secret K=V` only K.

    The flags in `dropped` are left out with their values.
    """
    flags = iter(words)
    for word in flags:
        name, equals, value = word.partition("=")
        if word == "--":
            yield word
            yield from flags
        elif name in dropped:
            if not equals:
                next(flags, None)
        elif name == "--secret":
            yield name
            yield (value if equals else next(flags, "")).partition("=")[0]
        else:
            yield word


def takes_program(params: Iterable[click.Parameter]) -> bool:
    return any((param.metavar or "").startswith("-- ") for param in params)
