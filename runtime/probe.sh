# Sends a request of readiness_probe. The lines above set url, timeout, method, data, private and the headers. Prints why the
# request fails, for an Event of the pod: never a header. Does not follow redirects, which may lead to another host, and
# counts them as success, as the kubelet does.
unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY # the address is the pod's own
curl_() {
  for header; do set -- "$@" -H "$header"; shift; done
  [ "$method" = GET ] || set -- "$@" --data-raw "$data" # with --data-binary, @FILE is a file
  curl -fsS --globoff -o /dev/null --max-time "$timeout" "$@" "$url"
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
  if [ -z "$gnu" ]; then
    wget -q -O /dev/null "$@" "$url" # the kubelet ends it in time; -T crashes some versions of BusyBox
    return
  fi
  message=$(LC_ALL=C wget -nv -O /dev/null --max-redirect=0 --tries=1 "$@" "$url" 2>&1) && return
  case $message in *"redirections exceeded"*) return 0 ;; esac
  echo "$message"
  return 1
}
for header; do
  case $header in *[[:cntrl:]]*)
    echo "a header of readiness_probe has a control character: does its secret end with a newline?"
    exit 1
    ;;
  esac
done
python=$(command -v python3 || command -v python)
case $(wget --help 2> /dev/null) in *--max-redirect*) gnu=yes ;; *) gnu= ;; esac
if command -v curl > /dev/null; then
  curl_ "$@"
elif [ -n "$python" ]; then
  python_ "$@"
elif [ -n "$gnu" ] || { [ -z "$private" ] && command -v wget > /dev/null; }; then
  wget_ "$@"
elif [ -n "$private" ]; then
  echo "the image has no curl, python3 or GNU wget to send the headers or secrets of readiness_probe: the wget of BusyBox follows redirects"
  exit 1
else
  echo "the image has no curl, python3 or wget to send the $method request of readiness_probe"
  exit 1
fi
