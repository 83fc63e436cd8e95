"""Explain why the image of a node is not pulled."""

import re
from collections.abc import Mapping

from kubectl_sky.observe.findings import Rule, Stage, find_host
from kubectl_sky.observe.signals import Signal, SignalSource, TaskSnapshot
from kubectl_sky.words import kinds, names
from kubectl_sky.words.pod_objects import NO_POD

_IMAGE = re.compile(r'image "([^"]+)"')
_SECRETS = re.compile(r"image pull secrets \(([^)]*)\)")
_PULL = "ErrImagePull|ImagePullBackOff|RegistryUnavailable"


def _image(name: str, message: str, what: str, then: str, reason: str = _PULL) -> Rule:
    return Rule(
        name,
        Stage.IMAGE,
        SignalSource.WAITING,
        what,
        then,
        reason=reason,
        message=message,
        detail=_image_and_host,
    )


def _image_and_host(
    snapshot: TaskSnapshot, signal: Signal, groups: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the image, which not each message quotes: then that of the main container."""
    more = {**find_host(snapshot, signal, groups), "secrets": _missing_secrets(snapshot)}
    quoted = _IMAGE.search(signal.message)
    image = groups.get("image") or (quoted[1] if quoted else "")
    if image:
        return {**more, "image": image}
    pod = next((snapshot.pods[rank] for rank in signal.ranks if rank in snapshot.pods), NO_POD)
    containers = pod.spec.containers
    images = {item.name: item.image for item in containers}
    return {**more, "image": images.get(names.CONTAINER) or next(iter(images.values()), "")}


def _missing_secrets(snapshot: TaskSnapshot) -> str:
    """Return which secrets of its pods, with which images are pulled, do not exist."""
    for event in snapshot.of(kinds.EVENT):
        if event.reason == "FailedToRetrieveImagePullSecret":
            named = _SECRETS.search(event.message)
            return f", and the secret {named[1]}, which does not exist" if named else ""
    return ""


# The order matters: a text that says more stands before one that is a part of others.
IMAGE: tuple[Rule, ...] = (
    _image(
        "image-name",
        r'^(?:.*?"(?P<image>[^"]+)")?.*?(?P<rest>invalid reference format.*|$)',
        'invalid image name "{image}"|: {rest}',
        "correct resources.image_id or --image",
        "InvalidImageName",
    ),
    _image(
        "image-never",
        r'image "(?P<image>[^"]+)"',
        'image "{image}" is not on the cluster node, and imagePullPolicy is Never',
        "load it onto the cluster nodes, or change imagePullPolicy",
        "ErrImageNeverPull",
    ),
    _image(
        "image-short-name",
        r"short[- ]name",
        'the container runtime needs the full name of image "{image}"|: {why}',
        "write it with its registry, such as docker.io/library/python:3.12",
        f"{_PULL}|ImageInspectError",
    ),
    _image(
        "image-runtime-silent",
        r"(?:containerd|crio|dockerd?|cri-dockerd)\.sock",
        'the container runtime of the cluster node does not answer||; image "{image}" waits',
        "wait: the kubelet tries again; if it stays so, submit with --exclude-node {host}",
        f"{_PULL}|ImageInspectError",
    ),
    _image(
        "image-unsigned",
        r"[Ss]ource image rejected|signature (?:was )?required|signature validation"
        r"|no (?:matching |valid )?signatures?\b",
        'the cluster node accepts signed images only, and refuses image "{image}"|: {why}',
        "sign the image, or ask a cluster admin which images are allowed",
        f"{_PULL}|SignatureValidationFailed",
    ),
    _image(
        "image-rate",
        r"(?:toomanyrequests|rate limit|(?<=[ (])429\b|too many requests)",
        'registry rate limit reached for image "{image}"',
        "log in with SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER, or use a mirror",
    ),
    _image(
        "image-queue",
        r"pull QPS exceeded",
        'the cluster node pulls many images; image "{image}" waits',
        "wait: the kubelet tries again",
    ),
    _image(
        "image-space",
        r"(?:no space left on device|disk quota exceeded)",
        'the disk of the cluster node is full||; cannot pull image "{image}"',
        "ask a cluster admin, or use a smaller image",
    ),
    _image(
        "image-users",
        r"insufficient UIDs or GIDs|lchown [^:]{,200}: invalid argument",
        'image "{image}" has files of users that the cluster node cannot map|: {why}',
        "build the image with smaller user ids, or remove hostUsers from pod_config",
    ),
    _image(
        "image-platform",
        r"(?:no match for platform|no matching manifest for|no image found in .*for arch"
        r"|does not match the specified platform|image operating system \S+ cannot be used)",
        'image "{image}" does not support the platform of the cluster node||: its CPU architecture'
        " or operating system",
        "use a multi-platform image, or other cluster nodes",
    ),
    _image(
        "image-format",
        r"(?:schema ?1|manifest\.v1\+|[Mm]edia type .*(?:no longer|not) supported"
        r"|unsupported .{,20}(?:MIME|media) ?type|no processor for media|mediaType in manifest"
        r"|media type unexpected)",
        'image "{image}" has a format that the container runtime does not support',
        "build and push it again with a current tool",
    ),
    _image(
        "registry-untrusted",
        r"(?P<why>x509: certificate.*|certificate (?:signed by|has expired|is valid).*"
        r"|tls: failed to verify certificate.*|self[- ]signed certificate.*|x509: .*)",
        'the cluster node does not trust the registry of image "{image}"|: {why}',
        "ask a cluster admin to add the registry's CA to the container runtime, or to renew it",
    ),
    _image(
        "registry-http",
        r"server gave HTTP response to HTTPS client",
        'the registry of image "{image}" has no TLS, and the container runtime requires it',
        "use a registry with TLS, or ask a cluster admin to allow this one without",
    ),
    _image(
        "registry-proxy",
        r"(?<=[ (])407\b",
        'the proxy before the registry of image "{image}" requires a log-in',
        "ask a cluster admin: the container runtime has no password for its proxy",
    ),
    _image(
        "registry-unreachable",
        r"(?P<why>no such host|connection refused|connection reset by peer|i/o timeout"
        r"|TLS handshake timeout|no route to host|network is unreachable|network is down"
        r"|host is down|server misbehaving|[Tt]emporary failure in name resolution"
        r"|proxyconnect tcp[^\"]*|connect: connection timed out|Client\.Timeout[^\"]*"
        r"|cannot assign requested address|client connection lost|broken pipe"
        r"|use of closed network connection|remote error: tls: [^\"]*|http2: [^\"]*"
        r"|stream error: [^\"]*|do request: .*deadline exceeded|unexpected EOF|\bEOF\b)",
        'the cluster node cannot reach the registry of image "{image}"|: {why}',
        "check the registry's name; the kubelet tries again; ask a cluster admin if it stays so",
    ),
    _image(
        "registry-failed",
        r"(?<=[ (])50[0-9]\b|registry is unavailable",
        'the registry of image "{image}" fails|: {why}',
        "wait: the kubelet tries again; see the status of the registry",
    ),
    _image(
        "registry-firewall",
        r"client with IP|AuthorizationFailure</Code>",
        'the firewall of the registry keeps the cluster from image "{image}"|: {why}',
        "ask those who run the registry to admit the cluster's address",
    ),
    _image(
        "image-credentials",
        r"credential provider|unable to retrieve auth",
        'the cluster node gets no credentials for the registry of image "{image}"|: {why}',
        "ask a cluster admin; or set SKYPILOT_DOCKER_USERNAME, _PASSWORD and _SERVER",
    ),
    _image(
        "image-access",
        r"(?:unauthorized|denied|authorization failed|authentication required"
        r"|no basic auth credentials|insufficient_scope|authorization token has expired"
        r"|(?<=[ (])40[13]\b|[Ff]orbidden|failed to fetch (?:oauth|anonymous) token)",
        'no permission to pull image "{image}"||, or it does not exist',
        "check the name{secrets}; for a private image set SKYPILOT_DOCKER_USERNAME, _PASSWORD and"
        " _SERVER",
    ),
    _image(
        "image-store",
        r"input/output error|[Rr]ead-only file system|[Ss]tructure needs cleaning"
        r"|too many levels of symbolic links|failed to prepare extraction snapshot"
        r"|failed to unpack image on snapshotter \w+: failed to mount"
        r"|content digest [^\"]{,100}: not found",
        'cluster node {host} cannot store image "{image}"|: {why}',
        "submit with --exclude-node {host}; ask a cluster admin to look at its disk",
    ),
    _image(
        "image-damaged",
        r"(?P<why>failed to extract layer.*|failed to register layer.*"
        r"|(?:unexpected|failed) (?:commit digest|size validation|digest).*"
        r"|invalid tar header.*|archive/tar.*|filesystem layer verification failed.*"
        r"|mismatched image rootfs.*)",
        'image "{image}" cannot be unpacked on the cluster node|: {why}',
        "push the image again; if only one cluster node has it, add --exclude-node",
    ),
    _image(
        "image-missing",
        r"(?:: not found|manifest unknown|NotFound|does not exist|name unknown|(?<=[ (])404\b"
        r"|not found: does not exist|repository \S+ not found|[Nn]o such image)",
        'image "{image}" not found in the registry',
        "check name and tag in resources.image_id or --image",
    ),
    _image(
        "image-refused",
        r"(?<=[ (])4\d\d \(?[A-Z][a-z]+",
        'the registry refuses image "{image}"|: {why}',
        "check its name; ask those who run the registry",
    ),
    _image(
        "image-interrupted",
        r"(?P<why>context canceled|context deadline exceeded)"
        r"|code = (?:ResourceExhausted|Unavailable) desc",
        'the pull of image "{image}" was interrupted|: {why}',
        "wait: the kubelet tries again; if it stays so, submit with --exclude-node {host}",
    ),
    _image(
        "image-failed",
        "",
        'pulling image "{image}" failed|: {message}',
        "check its name; if it is right, add --exclude-node {host}, or ask a cluster admin",
        f"{_PULL}|SignatureValidationFailed|ImageInspectError",
    ),
)
