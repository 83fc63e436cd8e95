# The lines above set url, timeout, method, data and the headers. Prints why the request has failed.
unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY # the address is the pod's own
curl_() {
  for header; do set -- "$@" -H "$header"; shift; done
  [ "$method" = GET ] || set -- "$@" --data-binary "$data"
  curl -fsS -o /dev/null --max-time "$timeout" "$@" "$url"
}
python_() {
  "$python" -c '
import sys, urllib.request
class NoRedirects(urllib.request.HTTPErrorProcessor):
    def http_response(self, request, response):
        return response
url, timeout, method, data = sys.argv[1:5]
headers = dict(text.split(": ", 1) for text in sys.argv[5:])
body = data.encode() if method == "POST" else None
try:
    request = urllib.request.Request(url, body, headers)
    response = urllib.request.build_opener(NoRedirects).open(request, timeout=float(timeout))
    if response.status >= 400:
        raise OSError("HTTP status %d" % response.status)
except Exception as error:
    sys.exit("%s %s: %s" % (method, url, error))
' "$url" "$timeout" "$method" "$data" "$@"
}
wget_() {
  for header; do set -- "$@" --header "$header"; shift; done
  [ "$method" = GET ] || set -- "$@" --post-data "$data"
  wget -q -O /dev/null "$@" "$url" # follows redirects; the kubelet ends it in time; -T crashes some versions of BusyBox
}
python=$(command -v python3 || command -v python)
if command -v curl > /dev/null; then
  curl_ "$@"
elif [ -n "$python" ]; then
  python_ "$@"
elif command -v wget > /dev/null; then
  wget_ "$@"
else
  echo "the image has no curl, python3 or wget to send the $method request of readiness_probe"
  exit 1
fi
