"""The fixtures `cluster` and `namespace`, and what becomes of their tests without a Kubernetes.

`cluster` comes twice: the practice cluster first, then a real one. One test holds both to the same.
A test is `practice_only` where a real kubelet, scheduler or API server cannot answer differently:
its subject is this program. Pods on a real cluster are what takes long.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.errors import ClusterError
from tests.cluster import drivers, practice
from tests.cluster.differences import real_only
from tests.cluster.hold import Holder
from tests.cluster.shell import Unavailable, absent
from tests.cluster.target import ADMIN, Cluster

# As the user has it: the tests change their own.
ENVIRONMENT = dict(os.environ)
_MARKS = {
    "practice_cluster": (pytest.mark.practice,),
    "real_cluster": (pytest.mark.cluster,),
    "breakable": (pytest.mark.cluster,),
    "three_nodes": (pytest.mark.cluster, pytest.mark.nodes),
    "kubectl": (pytest.mark.tools,),  # built by Go where it is not installed
}
_absent = pytest.StashKey[str]()
_ABSENT = "no Kubernetes: "
_LEFT_OUT = "not on the practice cluster: "


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use one of the clusters, and leave out what need not run on both."""
    for item in items:
        for fixture, marks in _MARKS.items():
            if fixture in getattr(item, "fixturenames", ()):
                for mark in marks:
                    item.add_marker(mark)
    if superfluous := list(filter(_superfluous, items)):
        config.hook.pytest_deselected(items=superfluous)
        items[:] = [item for item in items if item not in superfluous]


def _superfluous(item: pytest.Item) -> bool:
    """Check for a `practice_only` test on the real cluster."""
    if os.environ.get("RECORD_SNAPSHOTS"):  # of the real one, for all
        return False
    return all(item.get_closest_marker(name) for name in ("practice_only", "cluster"))


def _uses_kubectl(item: pytest.Item) -> bool:
    """Check for a test on the practice cluster with kubectl."""
    return all(item.get_closest_marker(name) for name in ("practice", "tools"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Do what takes minutes before the first test, whose time is limited."""
    for item in session.items:
        why = real_only(item.nodeid) if item.get_closest_marker("practice") else ""
        if why:
            item.add_marker(pytest.mark.skip(f"{_LEFT_OUT}{why}"))

    if session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")

    with capture.global_and_fixture_disabled():
        if any(map(_uses_kubectl, session.items)):
            with suppress(Unavailable):  # the fixture `kubectl` says so again
                practice.kubectl()
        try:
            if any(item.get_closest_marker("cluster") for item in session.items):
                drivers.prepare()
            if any(item.get_closest_marker("nodes") for item in session.items):
                drivers.prepare(drivers.NAMED["nodes"])
        except Unavailable as error:
            session.config.stash[_absent] = str(error)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, and loudly, what did not run."""
    # read from the reports: the tests may have run in other processes
    skipped = {
        report.nodeid: str(report.longrepr[2]).removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    }
    left_out = {test: why for test, why in skipped.items() if why.startswith(_LEFT_OUT)}

    if left_out:
        title = f"NOT ON THE PRACTICE CLUSTER: {len(left_out)}"
        terminalreporter.section(title, yellow=True, bold=True)
        for test, why in left_out.items():
            terminalreporter.line(f"{test}: {why.removeprefix(_LEFT_OUT)}")

    absent = {why for why in skipped.values() if why.startswith(_ABSENT)}
    if absent:
        terminalreporter.section("NO KUBERNETES", red=True, bold=True)
        for why in sorted(absent):
            reason = why.removeprefix(_ABSENT)
            terminalreporter.line(f"No test that needs a cluster has run, because: {reason}")


@pytest.fixture(scope="session")
def practice_cluster() -> Iterator[Cluster]:
    """The practice cluster of the tests, ready."""
    holder = Holder.start(ENVIRONMENT, driver="practice")
    try:
        yield holder.cluster()
    finally:
        holder.stop()


@pytest.fixture(scope="session")
def real_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster that is ready. Without any, its tests are skipped; in CI they fail."""
    reason = pytestconfig.stash.get(_absent, None)
    if reason:
        absent(f"{_ABSENT}{reason}")
    holder = Holder.start(ENVIRONMENT)
    try:
        yield holder.cluster()
    finally:
        holder.stop()


@pytest.fixture(scope="session")
def three_nodes(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A real cluster of three cluster nodes, which is always built here."""
    reason = pytestconfig.stash.get(_absent, None)
    if reason:
        absent(f"{_ABSENT}{reason}")
    holder = Holder.start(ENVIRONMENT, driver="nodes")
    try:
        yield holder.cluster()
    finally:
        holder.stop()


@pytest.fixture(scope="session")
def breakable(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A real cluster whose programs may be killed: nobody else uses it at the same time.

    It is the one of the other tests where each process of them has its own.
    """
    holder = None
    if "KUBECONFIG" in ENVIRONMENT:
        environment = {key: value for key, value in ENVIRONMENT.items() if key != "KUBECONFIG"}
        holder = Holder.start(environment)
    try:
        cluster: Cluster = holder.cluster() if holder else request.getfixturevalue("real_cluster")
        if cluster.driver != "machine":
            pytest.skip("only programs of the cluster that is built here can be killed")
        yield cluster
    except Unavailable as error:
        absent(f"{_ABSENT}{error}")
    finally:
        if holder:
            holder.stop()


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("practice", marks=pytest.mark.practice),
        pytest.param("real", marks=pytest.mark.cluster),
    ],
)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Each of the two in turn."""
    chosen: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    return chosen


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace of the test alone, in which pods can be made."""
    stem = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    name = f"{stem}-{secrets.token_hex(3)}"
    connection = Connection(kubeconfig=str(cluster.kubeconfig), context=ADMIN)
    session = Session.connect(connection)
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    session.send("POST", "/api/v1/namespaces", body=body)
    try:
        _wait_for_account(session, name)
        yield name
    finally:
        session.send("DELETE", f"/api/v1/namespaces/{name}")
        session.close()


def _wait_for_account(session: Session, namespace: str) -> None:
    """Wait for what each pod needs, and a controller makes soon after the namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    query = {"fieldSelector": "metadata.name=default"}
    listed = session.send("GET", path, query=query).body
    if listed["items"]:
        return
    version = listed["metadata"]["resourceVersion"]
    watch = {**query, "watch": "true", "resourceVersion": version, "timeoutSeconds": "30"}
    stream = session.stream(path, watch, timeout=40)
    try:
        if not next(iter(stream), b""):
            raise ClusterError(f"namespace {namespace} got no account within 30 seconds")
    finally:
        stream.close()
