"""What the server says of errors: in words of REST, not of a command line."""

import pytest

from kubectl_sky_server.rest.problems import translate


@pytest.mark.parametrize(
    ("said", "translated"),
    [
        ("use another --id, or --dry-run=client", "use another id, or dry_run=client"),
        ("run `kubectl sky list`", "run `GET /tasks`"),
        ("run `kubectl sky serve status`", "run `GET /services`"),
        ("stop it: kubectl sky stop abcd2345", "stop it: POST /tasks/abcd2345/stop"),
        ("see `kubectl sky logs abcd2345`", "see `GET /tasks/abcd2345/logs`"),
        ("see `kubectl sky logs x --rank 5`", "see `GET /tasks/x/logs?rank=5`"),
        ('run "kubectl sky volumes list"', 'run "GET /volumes"'),
        ("run `kubectl sky users show -n team` to see", "run `GET /quotas` to see"),
        # Commands without a task stay.
        ("run `kubectl sky doctor -n team` to see", "run `kubectl sky doctor -n team` to see"),
        ("run `kubectl sky stop --leftovers`", "run `kubectl sky stop --leftovers`"),
        # Other programs keep their flags, and dashes are no flags.
        ("run `kubectl delete pvc x --wait`", "run `kubectl delete pvc x --wait`"),
        ("run kubectl sky wait a --continue; or --id", "run kubectl sky wait a --continue; or id"),
        ("a -- b, x--y", "a -- b, x--y"),
    ],
)
def test_translate_says_requests_and_parameters(said: str, translated: str) -> None:
    assert translate(said) == translated
