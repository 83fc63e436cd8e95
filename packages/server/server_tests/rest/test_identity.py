"""Who a caller is, and that nobody gets the server's own credentials."""

import asyncio
import base64
import itertools
import json
import time
from dataclasses import replace

import httpx2
import pytest
from starlette.testclient import TestClient

from kubectl_sky_server.rest import identity, limits
from kubectl_sky_server.rest.app import create_app
from kubectl_sky_server.rest.config import Config, Limits
from kubectl_sky_server.rest.limits import Turns
from server_tests.rest.conftest import ALICE, BOB, Client, bearer
from tests.fake_cluster import FakeCluster


def test_whoami_with_token_returns_user_of_token(client: Client) -> None:
    for token, name in ((ALICE, "alice"), (BOB, "bob")):
        answer = client(bearer(token)).get("/whoami")
        assert answer.status_code == 200
        assert answer.json() == {
            "user": name,
            "groups": ["testers"],
            "context": "fake",
            "namespace": "default",
            "all_namespaces": True,
            "namespaces": [],
        }


def test_request_without_token_is_refused(client: Client) -> None:
    answer = client().get("/tasks")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["detail"] == "this server answers only with credentials"


@pytest.mark.parametrize(
    "value",
    [
        "Bearer foreign",
        "Bearer ",
        "Bearer",
        "Basic YTpi",
        "",
        "Bearer a b",
        "Bearer é",
        "alice-token",
    ],
)
def test_request_with_wrong_authorization_is_refused(client: Client, value: str) -> None:
    header = {"Authorization": value.encode("latin-1")}
    answer = client().get("/tasks", headers=header)  # type: ignore[arg-type]
    assert answer.status_code == 401


def test_request_with_two_authorizations_is_refused(client: Client) -> None:
    headers = [("Authorization", f"Bearer {ALICE}"), ("Authorization", f"Bearer {BOB}")]
    assert client().get("/tasks", headers=headers).status_code == 401


def test_anonymous_cluster_user_is_refused(client: Client, cluster: FakeCluster) -> None:
    cluster.tokens["guest"] = "system:anonymous"
    assert client(bearer("guest")).get("/tasks").status_code == 401


def test_x_user_without_flag_is_ignored(client: Client) -> None:
    assert client({"X-User": "alice"}).get("/tasks").status_code == 401


def test_request_without_x_user_where_it_counts_names_it(client: Client) -> None:
    hint = client(trust_x_user=True).get("/tasks").json()["hint"]
    assert hint == "send the header: X-User: NAME, or: Authorization: Bearer TOKEN"


def test_x_user_with_flag_sets_user(client: Client) -> None:
    answer = client({"X-User": "carol@example.com"}, trust_x_user=True).get("/whoami")
    assert answer.json()["user"] == "carol@example.com"


def test_x_user_with_control_characters_is_refused(client: Client) -> None:
    answer = client({"X-User": "a\x1bb"}, trust_x_user=True).get("/whoami")
    assert answer.status_code == 400


def test_token_review_is_cached_for_a_minute(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client(bearer(ALICE))
    for _ in range(3):
        assert alice.get("/tasks").status_code == 200
    assert cluster.count("create selfsubjectreviews") == 1
    monkeypatch.setattr(identity, "monotonic", lambda: 1e12)
    del cluster.tokens[ALICE]
    assert alice.get("/tasks").status_code == 401


def test_wrong_tokens_do_not_lock_out_others_at_the_address(client: Client) -> None:
    anyone = client()
    for number in range(30):
        assert anyone.get("/tasks", headers=bearer(f"x{number}")).status_code == 401
    assert anyone.get("/tasks", headers=bearer(BOB)).status_code == 200


def test_wrong_tokens_do_not_displace_reviews_of_callers(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_MAX_TOKENS", 3)
    anyone = client()
    anyone.get("/tasks", headers=bearer(ALICE))
    for number in range(5):
        anyone.get("/tasks", headers=bearer(f"x{number}"))
    before = cluster.count("create selfsubjectreviews")
    assert anyone.get("/tasks", headers=bearer(ALICE)).status_code == 200
    assert cluster.count("create selfsubjectreviews") == before


def test_wrong_tokens_are_limited_and_known_tokens_are_not(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MAX_WAIT_SECONDS", 0.0)
    anyone = client(limits=Limits(requests_per_second=1000, wrong_tokens_per_second=1))
    assert anyone.get("/tasks", headers=bearer(ALICE)).status_code == 200
    reviews = cluster.count("create selfsubjectreviews")
    started = time.monotonic()
    for number in range(200):
        anyone.get("/tasks", headers=bearer(f"x{number}"))
        refused = anyone.post("/login", json={"token": f"y{number}"})
    seconds = int(time.monotonic() - started) + 1
    assert cluster.count("create selfsubjectreviews") - reviews <= 10 + seconds
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert anyone.get("/tasks", headers=bearer(ALICE)).status_code == 200
    assert anyone.post("/login", json={"token": ALICE}).status_code == 200


def test_turns_are_a_burst_and_then_one_after_the_other_for_each_key() -> None:
    now = 100.0
    turns = Turns(1.0, lambda: now)
    assert [turns.take("a") for _ in range(13)] == [0.0] * 10 + [1.0, 2.0, 3.0]
    assert turns.take("b") == 0.0
    turns.give_back("a")
    assert turns.take("a") == 3.0
    now = 102.0
    assert turns.take("a") == 2.0


def test_new_tokens_log_in_beside_wrong_ones_of_their_address(
    config: Config, cluster: FakeCluster
) -> None:
    cluster.tokens |= {f"valid-{number}": "alice" for number in range(50)}
    app = create_app(replace(config, limits=Limits(wrong_tokens_per_second=50)))
    wrong = itertools.count()

    async def log_in(client: httpx2.AsyncClient, token: str) -> int:
        return (await client.post("/login", json={"token": token})).status_code

    async def send_garbage(client: httpx2.AsyncClient) -> None:
        while True:
            assert await log_in(client, f"wrong-{next(wrong)}") == 401

    async def run() -> list[int]:
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
            garbage = [asyncio.create_task(send_garbage(client)) for _ in range(12)]
            while next(wrong) < 520:  # the burst is over
                await asyncio.sleep(0.01)
            codes = await asyncio.gather(*(log_in(client, f"valid-{it}") for it in range(50)))
            for task in garbage:
                task.cancel()
            return codes

    assert asyncio.run(run()) == [200] * 50


def test_tokens_of_a_known_issuer_do_not_wait_for_others(
    client: Client, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MAX_WAIT_SECONDS", 0.0)
    anyone = client(limits=Limits(requests_per_second=1000, wrong_tokens_per_second=0.1))
    known = web_token("us", "1")
    new = web_token("us", "2")
    foreign = web_token("them", "3")
    cluster.tokens |= {known: "alice", new: "bob"}
    for token, code in ((known, 200), (foreign, 401), (foreign, 429), (new, 200)):
        assert anyone.get("/tasks", headers=bearer(token)).status_code == code


def test_wrong_tokens_of_an_address_that_the_proxy_names_do_not_delay_another(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MAX_WAIT_SECONDS", 0.0)
    few = Limits(requests_per_second=1000, wrong_tokens_per_second=0.1)

    def codes(anyone: TestClient) -> list[int]:
        addresses = ("10.0.0.1, 10.0.0.2", "10.0.0.3, 10.0.0.2", "10.0.0.2, 10.0.0.3")
        answers = (
            anyone.get("/tasks", headers=bearer("wrong") | {"X-Forwarded-For": address})
            for address in addresses
        )
        return [answer.status_code for answer in answers]

    assert codes(client(limits=few, behind_proxy=True)) == [401, 429, 401]
    assert codes(client(limits=few)) == [401, 429, 429]


def web_token(issuer: str, signature: str) -> str:
    claims = json.dumps({"iss": issuer, "exp": time.time() + 600}).encode()
    payload = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    return f"e30.{payload}.{signature}"


def test_requests_of_same_user_are_rate_limited(client: Client) -> None:
    alice = client(bearer(ALICE), limits=Limits(requests_per_second=0.1))
    assert alice.get("/whoami").status_code == 200
    answer = alice.get("/whoami")
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1


def test_request_with_other_host_header_is_refused(alice: TestClient) -> None:
    for host in ("evil.example", "testserver.evil.example", "testserver:x", "", "[::1]"):
        assert alice.get("/", headers={"Host": host}).status_code == 421
    assert alice.get("/", headers={"Host": "testserver:8000"}).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_scraper_and_probe_may_use_the_address_of_the_pod(client: Client, path: str) -> None:
    address = {"Host": "10.0.0.7:8000"}
    assert client().get(path, headers=address).status_code == 200
    assert client().get(f"{path}/../whoami", headers=address).status_code == 421


def test_logout_forgets_the_token(client: Client) -> None:
    browser = client()
    session = browser.post("/login", json={"token": ALICE}).json()["session"]
    headers = {identity.SESSION_HEADER: session}
    assert browser.post("/logout", headers=headers).status_code == 204
    assert ALICE not in repr(vars(browser.app.state.identities))  # type: ignore[attr-defined]
    assert not browser.app.state.identities._reviews  # type: ignore[attr-defined]


def test_two_credentials_in_one_request_are_refused_by_name(client: Client) -> None:
    headers = [("Authorization", f"Bearer {ALICE}"), ("Authorization", f"Bearer {BOB}")]
    answer = client().get("/whoami", headers=headers)
    assert (answer.status_code, "given more than once" in answer.json()["detail"]) == (401, True)
