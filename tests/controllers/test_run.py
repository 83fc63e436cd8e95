"""The process of the controllers: which run, with whose credentials, and how it stops."""

import asyncio
import logging
import os
import signal
import ssl
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest
from click.testing import CliRunner

from kubectl_sky.cli import extras
from kubectl_sky.cli.main import sky
from kubectl_sky.cluster.connection import Connection, Tls
from kubectl_sky.cluster.session import Session
from kubectl_sky.controllers import run
from kubectl_sky.controllers.context import Context
from kubectl_sky.controllers.lease import LeaseKeeper
from kubectl_sky.words.settings import Settings


def sky_run(*arguments: str) -> Any:
    return CliRunner().invoke(sky, ["controllers", "run", *arguments], prog_name="kubectl sky")


def test_controllers_run_without_packages_names_pip_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "kopf")
    error = sky_run().exception
    assert str(error) == (
        "the packages of the controllers are not installed;"
        " run: pip install 'kubectl-sky[controllers]'"
    )


@pytest.mark.parametrize("name", ["nobody", "", "tasks,"])
def test_controllers_run_with_unknown_name_lists_names(name: str) -> None:
    done = sky_run("--only", name)
    assert done.exit_code == 2
    assert f'unknown controller "{name.removeprefix("tasks,")}"' in done.output
    assert "use tasks, ray, fairshare" in done.output


def test_controllers_each_registers() -> None:
    settings = run.operator_settings()
    session = Session.connect(Connection(server="http://127.0.0.1:1"))
    context = Context(session, None, Settings(), settings)
    run.register_all(("tasks", "ray", "fairshare"), kopf.OperatorRegistry(), context)
    assert settings.persistence.finalizer == "kubectl-sky/finalizer"


@pytest.mark.parametrize("signals", [True, False])
def test_lease_lost_is_waited_for_unless_a_signal_comes_meanwhile(
    monkeypatch: pytest.MonkeyPatch, signals: bool
) -> None:
    async def acquire() -> None:
        """Hold the Lease at once."""

    async def keep() -> str:
        return "lost the Lease"

    async def operate(options: object, session: object, stopped: asyncio.Event) -> None:
        await stopped.wait()
        if signals:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.02)

    monkeypatch.setattr(run, "_operate", operate)
    options = run.Options(("tasks",), Connection(), None, Settings())
    keeper = cast(LeaseKeeper, SimpleNamespace(acquire=acquire, keep=keep))
    session = Session.connect(Connection(server="http://127.0.0.1:1"))
    assert asyncio.run(run._lead(options, session, keeper)) is not signals


@pytest.mark.parametrize("verify", [True, False])
def test_tls_context_verifies_unless_insecure(verify: bool) -> None:
    context = run.tls_context(Tls(verify=verify))
    assert context.verify_mode == (ssl.CERT_REQUIRED if verify else ssl.CERT_NONE)
    assert context.check_hostname == verify


def test_log_line_of_exception_has_no_traceback_and_no_escapes() -> None:
    try:
        raise ValueError("bad\n\x1b[31mname")
    except ValueError as error:
        exception = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("kopf", logging.ERROR, "f", 1, "it %s", ("failed",), exception)
    assert run.OneLine("%(levelname)s %(message)s").format(record) == (
        "ERROR it failed: ValueError: bad name"
    )


def test_backoffs_of_kopf_have_no_end() -> None:
    backoffs = run.operator_settings().networking.error_backoffs
    assert not isinstance(backoffs, (int, float))
    seconds = list(islice(backoffs, 100))
    assert seconds == sorted(seconds) and seconds[-1] == 60
    assert list(islice(backoffs, 100)) == seconds
