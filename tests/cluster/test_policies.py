"""Rules derived from NetworkPolicies."""

from typing import Any

import pytest
import yaml

from tests.cluster.policies import State

Json = dict[str, Any]

NODE = "10.100.0.1"
PORTS = "{podSelector: {matchLabels: {app: api}}, policyTypes: [Ingress], ingress: [%s]}"
REJECTED = "-j REJECT --reject-with icmp-admin-prohibited"


def pod(name: str, address: str, namespace: str = "team", **labels: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name, **labels}}
    return {"metadata": metadata, "status": {"podIP": address} if address else {}}


API = pod("api", "10.100.1.1")
LOGIN = pod("login", "10.100.1.2")
OTHER = pod("login", "10.100.1.3", "other")
NEW = pod("login", "")


def policy(text: str, namespace: str = "team") -> Json:
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": yaml.safe_load(text)}


def state(*policies: Json, **more: list[Json]) -> State:
    names = ("team", "other")
    namespaces = [{"metadata": {"name": name, "labels": {"name": name}}} for name in names]
    read = {"services": [], "slices": [], **more}
    return State(namespaces, [API, LOGIN, OTHER, NEW], list(policies), **read)


def accepted(text: str, chain: str = "INPUT", selected: Json = API) -> list[str]:
    """Return what the rules of a pod accept in a chain that ends with a refusal."""
    lines = state(policy(text)).rules(selected, NODE).splitlines()
    lines = [line.removeprefix(f"-A {chain} ") for line in lines if f"-A {chain} " in line]
    assert lines[-1] == REJECTED
    always = ("-i lo", "-o lo", "-m conntrack", f"-s {NODE}")
    matches = [line.removesuffix(" -j ACCEPT") for line in lines[:-1]]
    return [match for match in matches if not match.startswith(always)]


def test_policy_with_ports_accepts_them_of_everybody() -> None:
    ports = "[{protocol: TCP, port: 8000}, {protocol: UDP, port: 53}]"
    assert accepted(PORTS % f"{{ports: {ports}}}") == [
        "-s 0.0.0.0/0 -p tcp --dport 8000",
        "-s 0.0.0.0/0 -p udp --dport 53",
    ]


@pytest.mark.parametrize(
    ("peer", "addresses"),
    [
        ("podSelector: {matchLabels: {app: login}}", ["10.100.1.2"]),
        ("podSelector: {matchLabels: {app: nobody}}", []),
        ("podSelector: {}", ["10.100.1.1", "10.100.1.2"]),
        ("namespaceSelector: {matchLabels: {name: other}}", ["10.100.1.3"]),
        (
            "namespaceSelector: {}, podSelector: {matchLabels: {app: login}}",
            ["10.100.1.2", "10.100.1.3"],
        ),
        ("ipBlock: {cidr: 10.0.0.0/30}", ["10.0.0.0/30"]),
    ],
)
def test_policy_with_peer_accepts_its_addresses(peer: str, addresses: list[str]) -> None:
    text = f"{{podSelector: {{}}, policyTypes: [Ingress], ingress: [{{from: [{{{peer}}}]}}]}}"
    assert accepted(text) == [f"-s {address}" for address in addresses]


@pytest.mark.parametrize(("rules", "matches"), [("[]", []), ("[{}]", ["-d 0.0.0.0/0"])])
def test_policy_of_egress_lets_out_what_it_names(rules: str, matches: list[str]) -> None:
    text = f"{{podSelector: {{}}, policyTypes: [Egress], egress: {rules}}}"
    assert accepted(text, "OUTPUT") == matches
    assert "INPUT" not in state(policy(text)).rules(API, NODE)


def test_policies_add_up_and_leave_other_pods_alone() -> None:
    each = [
        policy(PORTS % f"{{ports: [{{protocol: TCP, port: {port}}}]}}") for port in (8000, 8080)
    ]
    both = state(*each)
    rules = both.rules(API, NODE)
    assert "--dport 8000" in rules and "--dport 8080" in rules and rules.count("REJECT") == 1
    for free in (LOGIN, OTHER):
        assert "-A" not in both.rules(free, NODE)
    assert "-A" not in state(policy(PORTS % "", "other")).rules(API, NODE)


@pytest.mark.parametrize(
    "rule",
    [
        "ports: [{protocol: TCP, port: http}]",
        "ports: [{protocol: TCP, port: 1, endPort: 2}]",
        "from: [{ipBlock: {cidr: 10.0.0.0/30, except: [10.0.0.2/31]}}]",
        "from: [{podSelector: {matchExpressions: [{key: app, operator: Exists}]}}]",
    ],
)
def test_policy_with_what_ours_never_have_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=r"http|endPort|except|matchExpressions"):
        state(policy(PORTS % f"{{{rule}}}")).rules(API, NODE)


def test_service_is_resolved_to_endpoint_that_is_ready() -> None:
    name = {"name": "sky", "namespace": "team"}
    port = {"name": "http", "protocol": "TCP", "port": 80}
    service = {"metadata": name, "spec": {"clusterIP": "198.18.0.9", "ports": [port]}}
    headless = {"metadata": name, "spec": {"clusterIP": "None", "ports": [port]}}
    endpoints = [
        {"addresses": ["10.100.1.8"], "conditions": {"ready": False}},
        {"addresses": ["10.100.1.9"], "conditions": {"ready": True}},
    ]
    part = {
        "metadata": {**name, "labels": {"kubernetes.io/service-name": "sky"}},
        "ports": [{"name": "other", "port": 1}, {"name": "http", "port": 8000}],
        "endpoints": endpoints,
    }
    read = state(services=[service, headless], slices=[part])
    to = "-p tcp --dport 80 -j DNAT --to-destination 10.100.1.9:8000"

    resolved = read.rules(LOGIN, NODE)
    assert [line for line in resolved.splitlines() if "-A" in line] == [
        f"-A OUTPUT -d 198.18.0.9 {to}"
    ]
    assert "-A" not in read.rules(LOGIN, NODE, resolving=False)
