"""Build programs out of Go modules, into the cache."""

import json
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.cluster import cache, packages
from tests.cluster.shell import Broken, Unavailable, find, run

_OLDEST = (1, 21)  # the first that fetches the toolchain which a module asks for
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "auto", "GOFLAGS": "", "GOWORK": "off"}
_TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.26.0.linux-"


class Change(NamedTuple):
    """What a program is to have otherwise than its module, where no flag says so."""

    module: str
    file: str
    before: str
    after: str


def build(
    name: str, module: Path, package: str, flags: str = "", change: Change | None = None
) -> Path:
    """Return the program that is a package of the module in a folder, built once."""
    recipe = sorted(path for path in module.iterdir() if path.is_file())
    key = cache.digest(package, flags, *(change or ()), *recipe)

    def make(folder: Path) -> None:
        cache.say(f"building {name}: this takes minutes, once")
        go = _go()
        options = ["-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags=-s -w {flags}"]
        if change:
            options.append(f"-modfile={_changed(module, folder, change)}")
        environment = {**_ENVIRONMENT, "HOME": str(cache.HOME)}
        command = [go, "build", *options, "-o", str(folder / name), package]
        run(command, environment=environment, folder=module)
        shutil.rmtree(folder / "source", ignore_errors=True)

    return cache.keep(name, key, make) / name


def _changed(module: Path, folder: Path, change: Change) -> Path:
    """Return a go.mod that takes the program's module from a changed copy, in a folder."""
    source = folder / "source"
    run(["cp", "-r", "--no-preserve=mode", sources(module, change.module), source])
    text = (source / change.file).read_text()
    if change.before not in text:
        raise Broken(f"{change.file} of {change.module} has no `{change.before}` to be changed")
    (source / change.file).write_text(text.replace(change.before, change.after))
    recipe = folder / "go.mod"
    recipe.write_text(f"{(module / 'go.mod').read_text()}\nreplace {change.module} => {source}\n")
    shutil.copy(module / "go.sum", folder)
    return recipe


def sources(module: Path, name: str) -> Path:
    """Return the folder of a module that another one needs, in the version that it needs."""
    environment = {**_ENVIRONMENT, "HOME": str(cache.HOME)}
    command = [_go(), "mod", "download", "-json", name]
    return Path(json.loads(run(command, environment=environment, folder=module))["Dir"])


def _go() -> str:
    """Return a Go that is new enough, through Debian's when there is none."""
    if not find("go"):
        packages.require("golang-go")
    go = find("go")
    if not go:
        raise Unavailable("Go is not installed, and Debian's golang-go could not be had")
    match = re.search(r"go(\d+)\.(\d+)", run([go, "version"]))
    if match and (int(match[1]), int(match[2])) >= _OLDEST:
        return go
    return _newer(go)


def _newer(go: str) -> str:
    """Fetch a toolchain as the module that it also is, with a Go too old to do so by itself."""
    architecture = run([go, "env", "GOARCH"]).strip()
    answer = run([go, "mod", "download", "-json", _TOOLCHAIN + architecture], folder=cache.ROOT)
    folder = Path(json.loads(answer)["Dir"])
    for program in (*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")):
        program.chmod(0o755)  # a module's files are never executable
    return str(folder / "bin" / "go")
