"""A real API server accepts the server's manifests, and those of the Ingress, as restricted."""

from tests.e2e.command import ROOT, Command


def test_server_and_ingress_are_accepted(sky: Command, kubectl: Command, namespace: str) -> None:
    level = "pod-security.kubernetes.io/warn=restricted"
    assert kubectl("label", "namespace", namespace, level).returncode == 0
    ingress = (ROOT / "examples" / "server" / "ingress-oidc.yaml").read_text()
    texts = (
        sky("api", "--install", "-n", namespace, "--host-name", "sky.example.com").stdout,
        ingress.replace("namespace: kubectl-sky", f"namespace: {namespace}"),
    )
    for text in texts:
        done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=text)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert "(server dry run)" in done.stdout
