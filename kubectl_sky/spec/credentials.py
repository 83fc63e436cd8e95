"""Recognize well-known credential files and folders by name."""

from pathlib import PurePosixPath

# Files and folders, at any location.
PATHS = frozenset(
    {
        ".ssh",
        ".netrc",
        ".aws",
        ".azure",
        ".kube",
        ".docker",
        ".gnupg",
        ".oci",
        ".pypirc",
        ".npmrc",
        ".git-credentials",
        ".pgpass",
        ".boto",
        ".s3cfg",
        ".databrickscfg",
        ".config/gcloud",
        ".config/gh",
        ".config/rclone",
        ".cloudflare",
        ".huggingface",
        ".cache/huggingface/token",
        ".vault-token",
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ecdsa_sk",
        "id_ed25519",
        "id_ed25519_sk",
        "kubeconfig",
        "application_default_credentials.json",
        "credentials.json",
        "service-account.json",
        "service_account.json",
    }
)
SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".ppk", ".jks", ".keystore")
_SERVICE_ACCOUNTS = ("service-account", "service_account", "serviceaccount", "client_secret")
_PUBLIC = frozenset({"cacert.pem", "ca-bundle.pem"})  # certificates in Python packages
_LAST = frozenset(path.rpartition("/")[2] for path in PATHS)
_MAX_PARTS = max(path.count("/") + 1 for path in PATHS)


def are_in(path: str) -> bool:
    """Report whether the path or a folder above it holds credentials."""
    parts = PurePosixPath(path).parts
    return any(ends("/".join(parts[:end])) for end in range(1, len(parts) + 1))


def ends(path: str) -> bool:
    """Report whether the path itself is a credential file or folder, ignoring case."""
    path = path.lower()  # some file systems ignore case: .SSH is .ssh
    name = path.rpartition("/")[2]
    if name in _LAST:
        parts = path.split("/")
        return any("/".join(parts[-count:]) in PATHS for count in range(1, _MAX_PARTS + 1))
    if name.endswith(SUFFIXES):
        return name not in _PUBLIC
    return name.endswith(".json") and any(word in name for word in _SERVICE_ACCOUNTS)
