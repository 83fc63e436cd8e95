"""Scenes: get, describe, watch, selectors, discovery."""

from tests.practice.conformance import Scene, Step
from tests.practice.manifests import (
    CLAIM,
    HEADLESS,
    QUOTA,
    SECRET,
    SERVICE,
    config_map,
    job,
    pod,
    several,
)

_READY = Step("wait --for=condition=Ready pod/a --timeout=60s", shown=False)
_BOUND = Step("wait --for=jsonpath={.status.phase}=Bound pvc/notes --timeout=30s", shown=False)
_OBJECTS = Step(
    "apply -f -",
    several(pod("a"), job("j"), config_map("c"), CLAIM, SECRET, SERVICE, HEADLESS, QUOTA),
    shown=False,
)
_DONE = Step("wait --for=condition=Complete job/j --timeout=60s", shown=False)
_COUNTED = Step(
    "wait --for=jsonpath={.status.used.count/jobs\\\\.batch}=1 quota/few --timeout=30s", shown=False
)

_TABLES = Scene(
    "tables",
    (
        _OBJECTS,
        _READY,
        _BOUND,
        _DONE,
        _COUNTED,
        Step("get pods"),
        Step("get pods -o wide"),
        Step("get po,cm,secret,svc"),
        Step("get all"),
        Step("get pod/a -o name"),
        Step("get pods -o name"),
        Step("get pods -o jsonpath='{.items[*].status.phase}'"),
        Step("get pods -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[*].image"),
        Step("get pods -o go-template='{{range .items}}{{.kind}} {{.status.qosClass}}\n{{end}}'"),
        Step("get pods --show-labels --no-headers"),
        Step("get pods -L app,nothing --sort-by=.metadata.name"),
        Step("get jobs"),
        Step("get pvc"),
        Step("get serviceaccounts"),
        Step("get namespace {ns}"),
        Step("get nodes"),
        Step("get node -o jsonpath='{.items[*].status.conditions[*].type}'"),
        Step("get configmaps --chunk-size=1"),
        Step("get pod a -o yaml"),
        Step("get job j -o yaml"),
        Step("get pvc notes -o json"),
        Step("get svc web nodes -o yaml"),
        Step("get cm c -o yaml --show-managed-fields"),
        Step("get secret login -o yaml"),
        Step("get ns {ns} -o yaml"),
        Step("get pod absent"),
        Step("get pod absent --ignore-not-found"),
        Step("get pods a absent"),
        Step("get nosuchkind"),
        Step("get pods -n absent"),
        Step("get pods --raw /api/v1/namespaces/{ns}/pods/absent"),
        Step("get --raw /api/v1/nosuch"),
    ),
)

_DESCRIBE = Scene(
    "describe",
    (
        _OBJECTS,
        _READY,
        _BOUND,
        _DONE,
        _COUNTED,
        Step("describe pod a"),
        Step("describe job j"),
        Step("describe pvc notes"),
        Step("describe node", only=r"^[A-Z][\w .-]*:|^  \w+Pressure +\w+|^  Ready +\w+"),
        Step("describe namespace {ns}"),
        Step("describe cm c"),
        Step("describe secret login"),
        Step("describe svc nodes"),
        Step("describe quota few"),
        Step("describe serviceaccount default"),
        Step("describe pods -l app=x"),
        Step("describe pod absent"),
        Step(
            # The API server's repair of addresses may run at any time.
            "get events --field-selector reason!=ClusterIPNotAllocated --sort-by=.metadata.name",
            sorted=True,
        ),
        Step("events --for job/j", sorted=True),
        Step("get events --field-selector reason=Completed -o jsonpath='{.items[*].message}'"),
        Step("get events --field-selector involvedObject.kind=Job -o custom-columns=R:.reason"),
    ),
)

_WATCH = Scene(
    "watch",
    (
        Step("create -f -", config_map("c"), shown=False),
        Step(
            "get cm c -w --output-watch-events --request-timeout=4s",
            meanwhile="label cm c new=1",
        ),
        Step("get cm -w --watch-only -o name --request-timeout=4s", meanwhile="delete cm c"),
        Step(
            "get pods -w -o jsonpath='{.status.phase}\n' --request-timeout=8s",
            sorted=True,
            meanwhile="run a --image=busybox:1.36 --restart=Never -- sleep 2",
        ),
        Step("get pods -w --request-timeout=1s"),
        Step("get pods -w --resource-version=1 -o name --request-timeout=1s", shown=False),
    ),
)

_SELECTORS = Scene(
    "selectors",
    (
        Step(
            "create -f -",
            several(*(config_map(name, labels=f"app: {name}, of: x") for name in "abc")),
            shown=False,
        ),
        Step("create -f -", several(pod("p"), pod("q", "true")), shown=False),
        Step("wait --for=condition=Ready pod/p --timeout=60s", shown=False),
        Step(
            "wait --for=jsonpath={.status.phase}=Succeeded pod/q --timeout=60s",
            shown=False,
        ),
        Step("get cm -l app=a -o name"),
        Step("get cm -l 'app in (a,b)' -o name"),
        Step("get cm -l 'app notin (a,b),of' -o name"),
        Step("get cm -l '!of' -o name"),
        Step("get cm -l of=x,app!=b -o name"),
        Step("get cm -l 'app=='"),
        Step("get cm -l 'app in a'"),
        Step("get cm -l 'a b=c'"),
        Step("get cm --field-selector metadata.name=a -o name"),
        Step("get cm --field-selector metadata.name!=a,metadata.namespace={ns} -o name"),
        Step("get pods --field-selector status.phase=Running -o name"),
        Step("get pods --field-selector status.phase!=Running,spec.restartPolicy=Never -o name"),
        Step("get pods --field-selector spec.nodeName=nowhere"),
        Step("get pods --field-selector spec.nosuch=1"),
        Step("get pods --field-selector 'nonsense'"),
        Step("delete cm -l app=a"),
        Step("get cm -l of -o name"),
    ),
)

_DISCOVERY = Scene(
    "discovery",
    (
        Step("api-resources", sorted=True),
        Step("api-resources --api-group=batch -o wide"),
        Step("api-resources --namespaced=false -o name --verbs=watch", sorted=True),
        Step("api-versions"),
        Step("version"),
        Step("cluster-info"),
        Step("get --raw /readyz"),
        Step("get --raw /livez"),
        Step("get --raw /healthz"),
        Step("auth whoami -o jsonpath='{.status.userInfo.groups}'"),
        Step("auth can-i create jobs"),
        Step("auth can-i '*' '*'"),
        Step("auth can-i create jobs --context bob"),
        Step("auth can-i list secrets --as nobody"),
        Step("auth can-i --list --context bob", sorted=True),
        Step("auth whoami --context alice -o jsonpath='{.status.userInfo.username}'"),
        Step("get pods --context bob"),
        Step("get nodes --as alice"),
        Step("top pods"),
        Step("get pods --token=wrong --user=nobody"),
    ),
)

SCENES = (_TABLES, _DESCRIBE, _WATCH, _SELECTORS, _DISCOVERY)
