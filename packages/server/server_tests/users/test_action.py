"""Users with a namespace, rights and a quota: what is sent, updated, refused and removed."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from msgspec.structs import replace

from kubectl_sky.cli.main import sky
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Conflict, Forbidden, UserError
from kubectl_sky.observe import rights
from kubectl_sky.words import kinds, names, owners
from kubectl_sky_server.users import action as actions
from kubectl_sky_server.users.action import Added, Request
from kubectl_sky_server.users.model import DEFAULTS, GROUP, SERVICE_ACCOUNT, USER, QuotaFlags
from tests.builders import ID, make_job
from tests.fake_cluster import FakeCluster

Json = dict[str, Any]

ALICE = owners.name_owner("alice@example.com")
NAME = "kubectl-sky-alice-example-com"
NAMESPACE = "sky-alice-example-com"
QUOTA = QuotaFlags(cpus="8", memory="16", gpus="A100:2", tasks="4")
KINDS = {kinds.NAMESPACE, kinds.ROLE, kinds.ROLE_BINDING, kinds.LIMIT_RANGE, kinds.SERVICE_ACCOUNT}
Add = Callable[..., Added]
POLICIES = {kinds.VALIDATING_POLICY, kinds.VALIDATING_POLICY_BINDING}
KUEUE = {kinds.LOCAL_QUEUE, kinds.CLUSTER_QUEUE}


@pytest.fixture
def api(api: FakeCluster) -> FakeCluster:
    """A cluster whose only namespace for tasks is alice's."""
    cluster = FakeCluster(NAMESPACE)
    cluster.kinds |= KINDS
    return cluster


@pytest.fixture
def add(api: FakeCluster) -> Add:
    def run(flags: QuotaFlags = QUOTA, dry_run: str = "none", **changes: Any) -> Added:
        request = replace(Request(ALICE, USER, None, flags), **changes)
        return actions.add(api.session(), request, dry_run)

    return run


def done(added: Added) -> dict[str, str]:
    return {change.name.partition("/")[0]: change.done for change in added.changes}


def put(api: FakeCluster, kind: kinds.Kind, name: str, user: str = "", **more: Any) -> Json:
    labels = {"kubectl-sky/account": "User", "username": user} if user else {}
    metadata = {"name": name, "labels": labels, "annotations": {"kubectl-sky/user": user}}
    item = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return api.put(item | more)


def test_add_creates_namespace_first_and_binding_last(api: FakeCluster, add: Add) -> None:
    added = add()
    assert api.writes[0] == f"patch namespaces {NAMESPACE}"
    assert api.writes[-1] == f"patch rolebindings {NAME}"
    assert len(api.writes) == 5
    assert set(done(added).values()) == {"created"}
    assert api.get(kinds.RESOURCE_QUOTA, NAME)["spec"]["hard"] == {
        "requests.cpu": "8",
        "requests.memory": "16Gi",
        "requests.nvidia.com/gpu": "2",
        "pods": "4",
        **DEFAULTS,
    }

    (limit,) = api.get(kinds.LIMIT_RANGE, NAME)["spec"]["limits"]
    assert limit == {"type": "Container", "defaultRequest": {"cpu": "500m", "memory": "512Mi"}}

    groups = {kind.group: (kind.version,) for kind in api.kinds if kind.group}
    (role, _) = rights.role(NAMESPACE, "alice@example.com", rights.list_served(groups))
    assert api.get(kinds.ROLE, NAME)["rules"] == role["rules"]

    binding = api.get(kinds.ROLE_BINDING, NAME)
    (subject,) = binding["subjects"]
    assert (subject["kind"], subject["name"]) == ("User", "alice@example.com")
    assert binding["metadata"]["annotations"] == {"kubectl-sky/user": "alice@example.com"}


def test_namespace_enforces_pod_security(api: FakeCluster, add: Add) -> None:
    add(pod_security="restricted")
    add()  # keeps the level
    labels = api.get(kinds.NAMESPACE, NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    add(pod_security="privileged")
    labels = api.get(kinds.NAMESPACE, NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_add_again_changes_nothing(api: FakeCluster, add: Add) -> None:
    add()
    before = api.saved()
    assert set(done(add()).values()) == {"unchanged"}
    assert api.saved() == before


def test_add_again_updates_only_given_limits(api: FakeCluster, add: Add) -> None:
    add()
    api.requests.clear()
    added = add(QuotaFlags(cpus="200m", gpus="none"))
    configured = {name for name, what in done(added).items() if what == "configured"}
    assert configured == {"resourcequota", "limitrange"}
    assert api.get(kinds.RESOURCE_QUOTA, NAME)["spec"]["hard"] == {
        "requests.cpu": "200m",
        "requests.memory": "16Gi",
        "pods": "4",
        **DEFAULTS,
    }
    (limit,) = api.get(kinds.LIMIT_RANGE, NAME)["spec"]["limits"]
    assert limit["defaultRequest"]["cpu"] == "200m"


def test_add_changed_role_is_conflict_with_hint(api: FakeCluster, add: Add) -> None:
    api.before("patch roles", lambda: 409)
    with pytest.raises(Conflict, match=f"role.*/{NAME} was changed by somebody else.*kubectl edit"):
        add()


NO_LIMITS = QuotaFlags("none", "none", "none", "none", "none")


def test_add_with_serve_grants_services_until_it_is_taken_back(api: FakeCluster, add: Add) -> None:
    def may_serve() -> bool:
        rules = api.get(kinds.ROLE, NAME)["rules"]
        return any("deployments" in rule["resources"] for rule in rules)

    add()
    assert not may_serve()
    add(extras=["serve"])
    assert may_serve()
    assert done(add())["role.rbac.authorization.k8s.io"] == "unchanged"
    add(extras=["none"])
    assert not may_serve()


def test_add_without_limits_has_default_limits_in_own_namespace(api: FakeCluster, add: Add) -> None:
    add(NO_LIMITS)
    quota = api.get(kinds.RESOURCE_QUOTA, NAME)
    assert quota["spec"]["hard"] == DEFAULTS
    changed = DEFAULTS | {"services.loadbalancers": "2", "count/jobs.batch": "9"}
    api.put(quota | {"spec": {"hard": changed}})
    add(QuotaFlags(cpus="1"))
    hard = api.get(kinds.RESOURCE_QUOTA, NAME)["spec"]["hard"]
    assert hard == changed | {"requests.cpu": "1"}


def test_add_without_limits_deletes_quota_and_limit_range_of_other_namespace(
    api: FakeCluster, add: Add
) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    add(namespace=NAMESPACE)
    added = add(NO_LIMITS, namespace=NAMESPACE)
    assert (done(added)["resourcequota"], done(added)["limitrange"]) == ("deleted", "deleted")
    assert f"resourcequotas {NAME}" not in api.names()
    assert f"rolebindings {NAME}" in api.names()


@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_add_dry_run_without_namespace_sends_nothing(
    api: FakeCluster, add: Add, dry_run: str
) -> None:
    added = add(dry_run=dry_run)
    assert api.writes == []
    assert bool(added.notes) == (dry_run == "server")


def test_add_again_dry_run_server_sends_only_dry_runs(api: FakeCluster, add: Add) -> None:
    add()
    api.requests.clear()
    changes = done(add(QuotaFlags(cpus="1"), "server"))
    assert (changes["resourcequota"], changes["limitrange"]) == ("configured", "unchanged")
    assert api.writes and all("(dry run)" in text for text in api.writes)


def test_add_after_failure_creates_the_rest(api: FakeCluster, add: Add) -> None:
    api.forbidden.add("patch limitranges")
    with pytest.raises(Forbidden):
        add()
    assert f"rolebindings {NAME}" not in api.names()
    api.forbidden.clear()
    add()
    assert {f"limitranges {NAME}", f"rolebindings {NAME}"} < {*api.names()}


def test_add_namespace_of_other_owner_is_refused_unless_chosen(api: FakeCluster, add: Add) -> None:
    foreign = put(api, kinds.NAMESPACE, NAMESPACE, "bob")
    with pytest.raises(UserError, match="was not created for user"):
        add()
    assert api.writes == []
    assert "namespace" not in done(add(namespace=NAMESPACE))
    assert api.get(kinds.NAMESPACE, NAMESPACE) == foreign


@pytest.mark.parametrize(
    ("kind", "name"), [(kinds.ROLE, NAME), (kinds.RESOURCE_QUOTA, NAME), (kinds.ROLE_BINDING, NAME)]
)
@pytest.mark.parametrize("user", ["", "alice.example.com"])
def test_add_never_changes_objects_of_other_owner(
    api: FakeCluster, add: Add, kind: kinds.Kind, name: str, user: str
) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE, "alice-example.com")
    foreign = put(api, kind, name, user)
    with pytest.raises(UserError, match=r"was not created for|has the quota of"):
        add(namespace=NAMESPACE)
    assert api.get(kind, name) == foreign
    assert api.writes == []


def test_add_namespace_being_deleted_is_refused(api: FakeCluster, add: Add) -> None:
    add()
    item = api.get(kinds.NAMESPACE, NAMESPACE)
    item["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    api.put(item)
    with pytest.raises(UserError, match="is being deleted"):
        add()


@pytest.mark.parametrize("program", ["kubectl-sky-api", "kubectl-sky-controller-ray"])
def test_namespace_of_our_program_is_refused(api: FakeCluster, add: Add, program: str) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    put(api, kinds.SERVICE_ACCOUNT, program)
    with pytest.raises(UserError, match=f'namespace "{NAMESPACE}" is that of {program}'):
        add(namespace=NAMESPACE)
    assert api.writes == []


@pytest.mark.parametrize(
    ("namespace", "message"),
    [
        ("kube-system", "can take over the cluster"),
        ("kubectl-sky", "is that of the controllers"),  # before anything is installed
    ],
)
def test_namespace_of_kubernetes_or_controllers_is_refused(
    api: FakeCluster, add: Add, namespace: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        add(namespace=namespace)
    assert api.writes == []


def test_add_second_quota_in_namespace_is_refused(api: FakeCluster, add: Add) -> None:
    add()
    bob = owners.name_owner("bob")
    with pytest.raises(UserError, match=r'has the quota of user "alice@example\.com"'):
        add(user=bob, namespace=NAMESPACE)
    add(QuotaFlags(), user=bob, namespace=NAMESPACE)
    assert "rolebindings kubectl-sky-bob" in api.names()


def test_add_service_account_is_created_and_bound(api: FakeCluster, add: Add) -> None:
    add(user=owners.name_owner("robot"), kind=SERVICE_ACCOUNT, namespace=NAMESPACE)
    assert "serviceaccounts robot" in api.names()
    (subject,) = api.get(kinds.ROLE_BINDING, "kubectl-sky-robot")["subjects"]
    assert subject == {"kind": "ServiceAccount", "name": "robot", "namespace": NAMESPACE}
    with pytest.raises(UserError, match="not a valid name of a ServiceAccount"):
        add(user=owners.name_owner("Robot/1"), kind=SERVICE_ACCOUNT)


def test_add_group_is_bound_as_group(api: FakeCluster, add: Add) -> None:
    add(kind=GROUP)
    assert api.get(kinds.ROLE_BINDING, NAME)["subjects"][0]["kind"] == "Group"


def test_add_user_gets_queue_of_only_cluster_queue(api: FakeCluster, add: Add) -> None:
    api.kinds |= KUEUE
    put_cluster_queue(api, "gold")
    add()
    assert api.get(kinds.LOCAL_QUEUE, "alice-example-com")["spec"] == {"clusterQueue": "gold"}
    put_cluster_queue(api, "iron")
    assert done(add())["localqueue.kueue.x-k8s.io"] == "unchanged"
    assert done(add(cluster_queue="none"))["localqueue.kueue.x-k8s.io"] == "deleted"
    (note,) = add().notes
    assert "--cluster-queue: gold, iron" in note
    with pytest.raises(UserError, match='ClusterQueue "lead" not found; existing: gold, iron'):
        add(cluster_queue="lead")


def put_cluster_queue(api: FakeCluster, name: str) -> None:
    kind = kinds.CLUSTER_QUEUE
    api.put({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}})


def test_add_cluster_queue_without_kueue_is_refused(api: FakeCluster, add: Add) -> None:
    with pytest.raises(ClusterError, match="Kueue is not installed"):
        add(cluster_queue="gold")
    assert api.writes == []


def test_list_and_show_have_used_and_limit(api: FakeCluster, add: Add) -> None:
    add()
    quota = api.get(kinds.RESOURCE_QUOTA, NAME)
    used = {"requests.cpu": "1500m", "pods": "2", "requests.memory": "214748364800m"}
    api.put(quota | {"status": {"used": used}})
    (status,) = actions.list_accounts(api.session(), None)
    assert status.user == "alice@example.com"

    resources = ("requests.cpu", "requests.memory", "requests.nvidia.com/gpu", "pods")
    assert [status.use(name) for name in resources] == ["1.5/8", "204.8Mi/16Gi", "0/2", "2/4"]

    shown = actions.get_account(api.session(), "alice@example.com", None)
    assert replace(shown, unlimited=()) == status
    assert shown.unlimited == ("storage", "Services with externalIPs")

    memory = next(item for item in shown.quotas if item.resource == "requests.memory")
    assert memory.readable == ("204.8Mi", "16Gi")

    nameless = actions.get_account(api.session(), None, None)
    assert (nameless.user, nameless.quotas) == ("", shown.quotas)
    with pytest.raises(UserError, match='user "bob" not found'):
        actions.get_account(api.session(), "bob", None)


def test_show_names_no_external_addresses_if_the_cluster_refuses_them(
    api: FakeCluster, add: Add
) -> None:
    add(replace(QUOTA, storage="500"))
    api.before("create services", lambda: 422)
    assert actions.get_account(api.session(), ALICE.name, None).unlimited == ()
    assert "services kubectl-sky-dry-run" not in api.names()


def test_show_says_that_a_user_without_binding_has_no_rights(api: FakeCluster, add: Add) -> None:
    add()
    assert not actions.get_account(api.session(), ALICE.name, None).without_rights
    api.remove(kinds.ROLE_BINDING, NAME)
    assert actions.get_account(api.session(), ALICE.name, None).without_rights


def test_remove_deletes_binding_first_and_role_last(api: FakeCluster, add: Add) -> None:
    api.kinds |= KUEUE
    put_cluster_queue(api, "gold")
    add()
    api.requests.clear()
    removal = actions.plan_removal(api.session(), "alice@example.com", None)
    assert removal.deletes_namespace and not removal.running
    actions.remove(api.session(), removal)
    assert api.writes[0] == f"delete rolebindings {NAME}"
    assert api.writes[-2:] == [f"delete namespaces {NAMESPACE}", f"delete roles {NAME}"]
    assert api.names() == ["clusterqueues gold"]


def test_remove_keeps_namespace_not_created_by_add(api: FakeCluster, add: Add) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    foreign = put(api, kinds.RESOURCE_QUOTA, "admins-own")
    add(namespace=NAMESPACE)
    actions.remove(api.session(), actions.plan_removal(api.session(), ALICE.name, None))
    assert api.names() == [f"namespaces {NAMESPACE}", "resourcequotas admins-own"]
    assert api.get(kinds.RESOURCE_QUOTA, "admins-own") == foreign


def test_remove_keeps_namespace_used_by_other_user(api: FakeCluster, add: Add) -> None:
    add()
    add(QuotaFlags(), user=owners.name_owner("bob"), namespace=NAMESPACE)
    removal = actions.plan_removal(api.session(), ALICE.name, None)
    assert (removal.deletes_namespace, removal.others) == (False, ("bob",))
    actions.remove(api.session(), removal)
    assert f"namespaces {NAMESPACE}" in api.names()
    assert "rolebindings kubectl-sky-bob" in api.names()


def test_remove_names_running_tasks(api: FakeCluster, add: Add) -> None:
    add()
    api.put(make_job())
    (task,) = actions.plan_removal(api.session(), ALICE.name, None).running
    assert task.id == ID
    kept = actions.plan_removal(api.session(), ALICE.name, None, keeps_namespace=True)
    assert kept.running == ()  # another user's


def test_remove_is_refused_while_services_run(
    api: FakeCluster, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    add(namespace=NAMESPACE)
    api.kinds |= {kinds.DEPLOYMENT}
    chat = put(api, kinds.DEPLOYMENT, "chat", "alice-example.com")
    chat["metadata"]["labels"]["kubectl-sky/service"] = "chat"
    chat["metadata"]["annotations"]["kubectl-sky/user"] = ALICE.name
    api.put(chat)
    monkeypatch.setattr(Session, "connect", api.session)

    refused = CliRunner().invoke(sky, ["users", "remove", ALICE.name])
    assert f'not finished in namespace "{NAMESPACE}": 1 service (chat)' in str(refused.exception)
    assert f"rolebindings {NAME}" in api.names()
    done = CliRunner().invoke(sky, ["users", "remove", ALICE.name, "--force"])
    assert f"still running in namespace {NAMESPACE}: 1 service (chat)" in done.stderr
    assert f"rolebindings {NAME}" not in api.names()


def hold(api: FakeCluster, kind: kinds.Kind, name: str, **more: Any) -> None:
    """Let an object stay when it is deleted."""
    item = api.get(kind, name)
    item["metadata"]["finalizers"] = ["example.com/stuck"]
    api.put(item | more)


def test_remove_names_what_is_not_gone_and_what_keeps_it(
    api: FakeCluster, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add()
    conditions = [
        {"type": "NamespaceContentRemaining", "status": "True", "message": "pods remain"},
        {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "all deleted"},
    ]
    hold(api, kinds.NAMESPACE, NAMESPACE, status={"conditions": conditions})
    monkeypatch.setattr(Session, "connect", api.session)

    result = CliRunner().invoke(sky, ["users", "remove", ALICE.name, "--yes"])
    assert f"resourcequota/{NAME} deleted" in result.stdout
    assert f"namespace/{NAMESPACE} is being deleted" in result.stdout
    error = f"still being deleted: user/{ALICE.name}: Namespace {NAMESPACE} waits: pods remain;"
    assert str(result.exception).startswith(error)
    assert isinstance(result.exception, ClusterError)


def test_remove_without_waiting_calls_nothing_deleted(
    api: FakeCluster, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    add()
    monkeypatch.setattr(Session, "connect", api.session)
    result = CliRunner().invoke(sky, ["users", "remove", ALICE.name, "--yes", "--wait=false"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 5 and all(line.endswith(" is being deleted") for line in lines)


def test_add_calls_an_object_that_stays_being_deleted(api: FakeCluster, add: Add) -> None:
    add()
    hold(api, kinds.LIMIT_RANGE, NAME)
    changes = done(add(QuotaFlags(cpus="none", memory="none")))
    assert changes["limitrange"] == "is being deleted"


def test_user_with_several_namespaces_is_ambiguous(api: FakeCluster, add: Add) -> None:
    add()
    put(api, kinds.ROLE, "second", "alice-example.com")
    item = api.get(kinds.ROLE, "second")
    item["metadata"]["annotations"] = {"kubectl-sky/user": ALICE.name}
    api.put(item)
    with pytest.raises(UserError, match="has several namespaces"):
        actions.plan_removal(api.session(), ALICE.name, None)


@pytest.mark.parametrize("kind", [GROUP, SERVICE_ACCOUNT])
def test_add_again_with_other_kind_is_refused(api: FakeCluster, add: Add, kind: str) -> None:
    ml = owners.name_owner("ml")
    add(user=ml, kind=kind)
    api.requests.clear()
    with pytest.raises(UserError, match=f'"ml" was added as a {kind}'):
        add(QuotaFlags(cpus="16"), user=ml)
    assert api.writes == []


def test_add_pod_security_of_foreign_namespace_is_refused(api: FakeCluster, add: Add) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    with pytest.raises(UserError, match="omit --pod-security"):
        add(namespace=NAMESPACE, pod_security="restricted")
    assert api.writes == []


def test_add_other_cluster_queue_is_refused_before_writes(api: FakeCluster, add: Add) -> None:
    api.kinds |= KUEUE
    put_cluster_queue(api, "gold")
    add()
    put_cluster_queue(api, "iron")
    api.requests.clear()
    with pytest.raises(UserError, match='ClusterQueue "gold", which cannot change'):
        add(QuotaFlags(cpus="1"), cluster_queue="iron")
    assert api.writes == []
    assert done(add(cluster_queue="gold"))["localqueue.kueue.x-k8s.io"] == "unchanged"


def test_add_policy_is_created_before_the_namespace_and_stays(api: FakeCluster, add: Add) -> None:
    api.kinds |= POLICIES
    add(policy=True)
    assert api.writes[:3] == [
        "patch validatingadmissionpolicies kubectl-sky-users",
        "patch validatingadmissionpolicybindings kubectl-sky-users",
        f"patch namespaces {NAMESPACE}",
    ]
    assert set(done(add(policy=True)).values()) == {"unchanged"}
    actions.remove(api.session(), actions.plan_removal(api.session(), ALICE.name, None))
    assert len(api.names()) == 2

    binding = api.get(kinds.VALIDATING_POLICY_BINDING, "kubectl-sky-users")
    (term,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert term == {"key": names.ACCOUNT, "operator": "Exists"}


def test_add_policy_of_foreign_namespace_is_refused(api: FakeCluster, add: Add) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    with pytest.raises(UserError, match="omit --policy"):
        add(namespace=NAMESPACE, policy=True)
    assert api.writes == []


def test_add_policy_without_kind_is_refused(api: FakeCluster, add: Add) -> None:
    with pytest.raises(ClusterError, match="has no ValidatingAdmissionPolicies"):
        add(policy=True)
    assert api.writes == []


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_add_manifests_without_limits_omit_deleted_objects(
    api: FakeCluster, add: Add, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    add(QuotaFlags(cpus="1"))
    monkeypatch.setattr(Session, "connect", api.session)
    arguments = ["users", "add", ALICE.name, "--cpus", "none", "--dry-run=client"]
    printed = CliRunner().invoke(sky, [*arguments, "-o", form]).stdout
    found = [item["kind"] for item in yaml.safe_load(printed)["items"]]
    assert found == ["Namespace", "Role", "ResourceQuota", "RoleBinding"]
    assert f"limitrange/{NAME} deleted" in CliRunner().invoke(sky, arguments).stdout


@pytest.mark.parametrize(
    "denied", ["delete resourcequotas", "delete namespaces", "delete rolebindings"]
)
def test_remove_after_failure_deletes_the_rest(api: FakeCluster, add: Add, denied: str) -> None:
    add()
    api.forbidden.add(denied)
    with pytest.raises(Forbidden):
        actions.remove(api.session(), actions.plan_removal(api.session(), ALICE.name, None))
    assert [status.user for status in actions.list_accounts(api.session(), None)] == [ALICE.name]
    api.forbidden.clear()
    actions.remove(api.session(), actions.plan_removal(api.session(), ALICE.name, None))
    assert api.names() == []


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        (SERVICE_ACCOUNT, f"system:serviceaccount:{NAMESPACE}:trainer"),
        (GROUP, "a-member"),
        (USER, "trainer"),
    ],
)
def test_remove_of_kind_names_its_running_tasks(
    api: FakeCluster, add: Add, kind: str, owner: str
) -> None:
    put(api, kinds.NAMESPACE, NAMESPACE)
    add(user=owners.name_owner("trainer"), kind=kind, namespace=NAMESPACE)
    job = make_job()
    job["metadata"]["labels"]["username"] = owners.name_owner(owner).label
    job["metadata"].setdefault("annotations", {})["kubectl-sky/user"] = owner
    api.put(job)
    (task,) = actions.plan_removal(api.session(), "trainer", None).running
    assert task.id == ID
