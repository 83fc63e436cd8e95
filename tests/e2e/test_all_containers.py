"""`logs --all-containers`: init containers and sidecars of several tasks, while they run."""

from collections import Counter

from tests.e2e.command import Command

TASK = """
name: {name}
num_nodes: 2
resources: {{image_id: "busybox:1.36", cpus: 0.05}}
config:
  kubernetes:
    pod_config:
      spec:
        terminationGracePeriodSeconds: 1
        initContainers:
          - name: fetch
            image: "busybox:1.36"
            command: [sh, -c, "for i in $(seq 20); do echo fetched $i; sleep 0.1; done"]
        containers:
          - {{name: main}}
          - name: proxy
            image: "busybox:1.36"
            command: [sh, -c, "for i in $(seq 30); do echo proxied $i; sleep 0.1; done"]
run: for i in $(seq 40); do echo step $i; sleep 0.1; done
"""
LINES = [
    *(f"fetch | fetched {number}" for number in range(1, 21)),
    *(f"main | step {number}" for number in range(1, 41)),
    *(f"proxy | proxied {number}" for number in range(1, 31)),
]


def test_logs_all_containers_of_two_tasks_are_followed_from_their_start(
    sky: Command, kubectl: Command
) -> None:
    """No line is lost or doubled; kubectl prints the same ones."""
    for name in ("alpha", "beta"):
        done = sky(
            "submit", "-", "--id", f"{name[:4]}0001", "--detach", stdin=TASK.format(name=name)
        )
        assert done.returncode == 0, done.stderr

    done = sky("logs", "-f", "--all-containers", "alpha", "beta")
    assert done.returncode == 0, done.stderr
    expected = [
        f"{name} node-{rank} {line}"
        for name in ("alpha", "beta")
        for rank in (0, 1)
        for line in LINES
    ]
    assert Counter(done.stdout.splitlines()) == Counter(expected)
    existing = sky("logs", "--all-containers", "alpha", "beta")
    assert sorted(existing.stdout.splitlines()) == sorted(done.stdout.splitlines())

    pods = kubectl("get", "pods", "-l", "task-id=alph0001", "-o", "name").stdout.split()
    texts = "".join(kubectl("logs", "--all-containers", pod).stdout for pod in pods)
    raw = sky("logs", "alph0001", "--all-containers", "-o", "raw").stdout
    assert sorted(raw.splitlines()) == sorted(texts.splitlines())
    assert sky("logs", "alph0001", "-c", "fetch", "--rank", "1", "--tail", "1").stdout == (
        "node-1 | fetched 20\n"
    )
