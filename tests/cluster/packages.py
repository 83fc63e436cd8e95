"""Debian's packages that the cluster of this machine needs; installed when they are missing."""

import os
from pathlib import Path

from tests.cluster.cache import lock, say
from tests.cluster.shell import Unavailable, find, run

CNI = Path("/usr/lib/cni")
PROGRAMS = {
    "busybox": "busybox-static",
    "chromium": "chromium",
    "containerd": "containerd",
    "objdump": "binutils",
    "strip": "binutils",
    "ctr": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "openssl": "openssl",
    "runc": "runc",
    "socat": "socat",
}


def require(*programs: str) -> None:
    """Install what is missing of these programs. Raises Unavailable when that cannot be done."""
    with lock("packages"):
        wanted = {PROGRAMS.get(program, program) for program in programs if not find(program)}
        if "containerd" in programs and not (CNI / "bridge").exists():
            wanted.add("containernetworking-plugins")
        if wanted:
            _install(sorted(wanted))


def _install(packages: list[str]) -> None:
    if os.geteuid() or not find("apt-get"):
        raise Unavailable(f"{', '.join(packages)} missing, and this is not root on Debian")
    say(f"installing {' '.join(packages)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    options = ["-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    run(["apt-get", "update", *options], environment=quiet)
    install = ["apt-get", "install", "--no-install-recommends", *options, *packages]
    run(install, environment=quiet)
