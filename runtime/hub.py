"""Download a repository or bucket of the Hugging Face Hub into a volume of the pod.

Part of fetch.sh. Requires Python 3.6 and no packages. HF_ENDPOINT is the URL of the Hub and
HF_TOKEN the access token, as for the Hub's own tools. The last line on stderr says why it failed.
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

WORKERS = 8
BLOCK = 1 << 20  # bytes
BACKOFF = (1, 2, 4, 8, 16)  # seconds before each retry
TEMPORARY = (408, 429, 500, 502, 503, 504)  # HTTP status codes
PROGRESS = 10  # seconds between two lines of progress

endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
token = (os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or "").strip()
tree_url = endpoint + os.environ["KUBECTL_SKY_TREE"]
files_url = endpoint + os.environ["KUBECTL_SKY_RESOLVE"]
prefix = os.environ["KUBECTL_SKY_PREFIX"]
target = os.environ["KUBECTL_SKY_SCRATCH"] + "/data"


class DownloadError(Exception):
    """A failure that a retry cannot repair."""


class Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        request = super().redirect_request(*arguments)
        return request and authorize(request)


opener = urllib.request.build_opener(Redirects)


def authorize(request):
    """Add the token to a request to the Hub, and not to hosts that it redirects to."""
    if token and urlsplit(request.full_url)[:2] == urlsplit(endpoint)[:2]:
        request.add_unredirected_header("Authorization", "Bearer " + token)
    return request


def get(url, start=0):
    headers = {"User-Agent": "kubectl-sky"}
    if start:
        headers["Range"] = "bytes=%d-" % start
    return opener.open(authorize(urllib.request.Request(url, headers=headers)), timeout=60)


def retry(function):
    """Call a function, and again after temporary failures."""
    for delay in BACKOFF:
        try:
            return function()
        except urllib.error.HTTPError as error:
            if error.code not in TEMPORARY:
                raise
            retry_after = error.headers.get("Retry-After", "")
            delay = min(int(retry_after), 60) if retry_after.isdigit() else delay
        except (OSError, HTTPException):
            pass
        time.sleep(delay)
    return function()


def get_page(url):
    with get(url) as response:
        link = re.search(r'<([^>]+)>;\s*rel="next"', response.headers.get("Link", ""))
        entries = json.load(response)
        following = urljoin(url, link.group(1)) if link else None
        return entries, following


def list_folder(path, recursive):
    """Return the entries of all pages of a folder."""
    folder = "/" + quote(path, safe="") if path else ""
    url = "%s%s?recursive=%s" % (tree_url, folder, recursive)
    entries = []
    while url:
        page, url = retry(partial(get_page, url))
        entries += page
    return entries


def select():
    """Return the files below the prefix, or the file of that path, with their local paths."""
    try:
        entries = list_folder(prefix, "true")
    except urllib.error.HTTPError as error:
        if error.code != 404 or not prefix:
            raise
        entries = list_folder(prefix.rpartition("/")[0], "false")  # the prefix may be a file
    folder = prefix + "/" if prefix else ""
    if prefix and not any((entry["path"] + "/").startswith(folder) for entry in entries):
        raise DownloadError("not found")
    files = [entry for entry in entries if entry["type"] == "file"]
    single = [(entry, target) for entry in files if entry["path"] == prefix]
    return single or [
        (entry, local_path(entry["path"][len(folder) :]))
        for entry in files
        if entry["path"].startswith(folder)
    ]


def local_path(name):
    parts = name.split("/")
    if {"", ".", ".."}.intersection(parts) or "\0" in name:
        raise DownloadError("invalid file name: %r" % name)
    return os.path.join(target, *parts)


def save(entry, path):
    """Download one file, resume after interruptions, and verify its size and checksum."""
    url = files_url + "/" + quote(entry["path"])
    size = entry.get("size")
    digest = [hashlib.sha256()]
    os.makedirs(os.path.dirname(path), exist_ok=True)

    def resume():
        with get(url, file.tell()) as response:
            if response.status != 206:  # the whole file, not the rest
                file.seek(0)
                file.truncate()
                digest[0] = hashlib.sha256()
            for block in iter(lambda: response.read(BLOCK), b""):
                write(file, block)
                digest[0].update(block)
        if size is not None and file.tell() < size:
            raise ConnectionError("download interrupted")

    with open(path, "wb") as file:
        retry(resume)
        length = file.tell()
    expected = (entry.get("lfs") or {}).get("oid", "")  # the SHA-256 of a large file
    if size is not None and length != size:
        raise DownloadError("size of %s does not match" % entry["path"])
    if len(expected) == 64 and expected != digest[0].hexdigest():
        raise DownloadError("checksum of %s does not match" % entry["path"])
    return length


def write(file, block):
    try:
        file.write(block)
        file.flush()
    except OSError as error:
        raise DownloadError("cannot write %s: %s" % (file.name, error.strerror)) from None


def download():
    files = select()
    if not files or files[0][1] != target:
        os.makedirs(target, exist_ok=True)
    reported = time.time()
    size = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(save, *file) for file in files]
        try:
            for number, future in enumerate(futures, 1):
                size += future.result()
                if time.time() - reported > PROGRESS:
                    reported = time.time()
                    print("%d of %d files, %.1f MB" % (number, len(files), size / 1e6), flush=True)
        except BaseException:
            for future in futures:
                future.cancel()
            raise


def describe(error):
    """Return the Hub's reason for an error."""
    message = error.headers.get("X-Error-Message") or "%d %s" % (error.code, error.reason)
    if error.code in (401, 403, 404) and not token:
        message += "; private and gated repositories need a token: secrets: {HF_TOKEN: null}"
    return message


try:
    download()
except urllib.error.HTTPError as error:
    sys.exit(describe(error))
except urllib.error.URLError as error:
    sys.exit("no answer from %s: %s" % (endpoint, error.reason))
except (DownloadError, OSError, HTTPException, ValueError, KeyError, TypeError) as error:
    sys.exit("%s" % (error or type(error).__name__))
