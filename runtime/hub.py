"""hub.py: copies from Hugging Face's Hub into a volume of the pod; fetch.sh runs it.

Needs Python 3.6 and no packages. HF_ENDPOINT says where the Hub is and HF_TOKEN who asks, as for
the Hub's own programs. Its last line on stderr says why it failed.
"""

import hashlib
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from urllib.parse import quote, urljoin, urlsplit

AT_ONCE = 8
BLOCK = 1 << 20
WAITS = (1, 2, 4, 8, 16)  # seconds before another try
PASSING = (408, 429, 500, 502, 503, 504)
TOLD = 10  # seconds between two lines about how far it is

here = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
token = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip()
tree, files = here + os.environ["KUBECTL_SKY_TREE"], here + os.environ["KUBECTL_SKY_RESOLVE"]
prefix, target = os.environ["KUBECTL_SKY_PREFIX"], os.environ["KUBECTL_SKY_SCRATCH"] + "/data"


class Failed(Exception):
    """It cannot be copied, and trying again does not help."""


class Redirects(urllib.request.HTTPRedirectHandler):
    """Goes where the Hub sends us."""

    def redirect_request(self, *arguments):
        request = super().redirect_request(*arguments)
        return request and signed(request)


opener = urllib.request.build_opener(Redirects)


def origin(url):
    return urlsplit(url)[:2]


def signed(request):
    """Say who asks; the token is for the Hub alone, and not for whom it sends us to."""
    if token and origin(request.full_url) == origin(here):
        request.add_unredirected_header("Authorization", "Bearer " + token)
    return request


def ask(url, begin=0):
    headers = {"User-Agent": "kubectl-sky"}
    if begin:
        headers["Range"] = "bytes=%d-" % begin
    return opener.open(signed(urllib.request.Request(url, headers=headers)), timeout=60)


def tried(work):
    """Do something that may fail on the way, some times."""
    for wait in WAITS:
        try:
            return work()
        except urllib.error.HTTPError as error:
            if error.code not in PASSING:
                raise
            later = error.headers.get("Retry-After", "")
            wait = min(int(later), 60) if later.isdigit() else wait
        except (OSError, HTTPException):
            pass
        time.sleep(wait)
    return work()


def page(url):
    with ask(url) as answer:
        link = re.search(r'<([^>]+)>;\s*rel="next"', answer.headers.get("Link", ""))
        return json.load(answer), urljoin(url, link.group(1)) if link else None


def listed(path, recursive):
    """Return what is in a folder, page after page."""
    url = "%s%s?recursive=%s" % (tree, "/" + quote(path, safe="") if path else "", recursive)
    found = []
    while url:
        entries, url = tried(partial(page, url))
        found += entries
    return found


def wanted():
    """Return each file that is meant, and where it goes: a folder's below the target."""
    try:
        entries = listed(prefix, "true")
    except urllib.error.HTTPError as error:
        if error.code != 404 or not prefix:
            raise
        entries = listed(prefix.rpartition("/")[0], "false")  # it may be a file
    below = prefix + "/" if prefix else ""
    if not any((one["path"] + "/").startswith(below) for one in entries) and prefix:
        raise Failed("there is nothing of that name")
    those = [one for one in entries if one["type"] == "file"]
    single = [(one, target) for one in those if one["path"] == prefix]
    inside = [one for one in those if one["path"].startswith(below)]
    return single or [(one, placed(one["path"][len(below) :])) for one in inside]


def placed(name):
    parts = name.split("/")
    if {"", ".", ".."}.intersection(parts) or "\0" in name:
        raise Failed("a file is called %r there" % name)
    return os.path.join(target, *parts)


def save(entry, path):
    """Write one file; what breaks off goes on where it was, and is as long as was said."""
    url, size = files + "/" + quote(entry["path"]), entry.get("size")
    digest = [hashlib.sha256()]
    os.makedirs(os.path.dirname(path), exist_ok=True)

    def more():
        with ask(url, file.tell()) as answer:
            if answer.status != 206:  # from its beginning
                file.seek(0)
                file.truncate()
                digest[0] = hashlib.sha256()
            for block in iter(lambda: answer.read(BLOCK), b""):
                written(file, block)
                digest[0].update(block)
        if size is not None and file.tell() < size:
            raise ConnectionError("broke off")

    with open(path, "wb") as file:
        tried(more)
        length = file.tell()
    expected = (entry.get("lfs") or {}).get("oid", "")  # a SHA-256, of what is large
    damaged = len(expected) == 64 and expected != digest[0].hexdigest()
    if damaged or (size is not None and length != size):
        raise Failed("%s is not what the Hub said it would be" % entry["path"])
    return length


def written(file, block):
    try:
        file.write(block)
        file.flush()
    except OSError as error:
        raise Failed("no room for %s: %s" % (file.name, error.strerror)) from None


def copy():
    found = wanted()
    if not found or found[0][1] != target:
        os.makedirs(target, exist_ok=True)
    told, done = time.time(), 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(save, *one) for one in found]
        try:
            for number, future in enumerate(futures, 1):
                done += future.result()
                if time.time() - told > TOLD:
                    told = time.time()
                    print("%d of %d files, %.1f MB" % (number, len(found), done / 1e6), flush=True)
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def reason(error):
    """Say what the Hub has against it."""
    said = error.headers.get("X-Error-Message") or "%d %s" % (error.code, error.reason)
    if error.code in (401, 403, 404) and not token:
        said += "; what is private or gated needs a token: secrets: {HF_TOKEN: null}"
    return said


try:
    copy()
except urllib.error.HTTPError as error:
    sys.exit(reason(error))
except urllib.error.URLError as error:
    sys.exit("no answer from %s: %s" % (here, error.reason))
except (Failed, OSError, HTTPException, ValueError, KeyError, TypeError) as error:
    sys.exit("%s" % (error or type(error).__name__))
