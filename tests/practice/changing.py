"""Scenes: create, apply, patch, replace, edit, delete."""

from tests.practice.conformance import Scene, Step
from tests.practice.manifests import DEFINITION, SERVICE, boat, config_map, job, pod, several

_MINE = "apply --server-side --field-manager=mine -f -"
_YOURS = "apply --server-side --field-manager=yours -f -"
_SED = {"EDITOR": "sed -i s/one/two/"}
_NOTHING = {"EDITOR": "true"}

_APPLY = Scene(
    "apply",
    (
        Step("diff -f -", config_map("c")),
        Step("apply -f - --dry-run=client", config_map("c")),
        Step("apply -f - --dry-run=server", config_map("c")),
        Step("apply -f -", config_map("c")),
        Step("apply -f -", config_map("c")),
        Step("apply -f -", config_map("c", "b: two")),
        Step("get cm c -o jsonpath='{.data}'"),
        Step("diff -f -", config_map("c", "b: three")),
        Step("apply view-last-applied cm c"),
        Step("apply --server-side -f -", config_map("c", "b: two")),
        Step(_MINE, config_map("s")),
        Step(_MINE, config_map("s")),
        Step(_YOURS, config_map("s", "a: '2'")),
        Step(_YOURS, config_map("s", "a: '2', b: '3'", "app: y")),
        Step(f"{_YOURS} --force-conflicts", config_map("s", "a: '2', b: '3'")),
        Step(_MINE, config_map("s", "d: '4'")),
        Step("get cm s -o yaml --show-managed-fields", sorted=True),
        Step("apply -f -", SERVICE),
        Step("apply -f -", SERVICE.replace("name: http, port: 80", "name: http, port: 81")),
        Step("get svc web -o jsonpath='{.spec.ports}'"),
        Step("apply -f -", pod("a")),
        Step("apply -f -", pod("a").replace("1.36", "1.37")),
        Step("apply -f -", pod("a", "sleep 700"), about="another command"),
        Step("apply -f -", job("j", spec="suspend: true")),
        Step("apply -f -", job("j", "echo other", spec="suspend: true")),
        Step("apply -f - --validate=false", config_map("c") + "nosuch: 1\n"),
        Step("apply -f -", several(config_map("c"), config_map("d"), job("k", spec="suspend: 1"))),
        Step("apply -f nosuch.yaml"),
        Step("delete -f - --wait=false", several(config_map("c"), config_map("x"))),
    ),
)

_PATCH = Scene(
    "patch",
    (
        Step("create -f -", config_map("c", "a: one"), shown=False),
        Step("create -f -", several(pod("p"), SERVICE), shown=False),
        Step("create -f -", job("j", spec="suspend: true"), shown=False),
        Step('patch cm c --type=merge -p \'{"data":{"b":"2"}}\''),
        Step('patch cm c --type=merge -p \'{"data":{"b":"2"}}\''),
        Step('patch cm c --type=merge -p \'{"data":{"b":null}}\''),
        Step('patch cm c --type=json -p \'[{"op":"add","path":"/data/x","value":"1"}]\''),
        Step('patch cm c --type=json -p \'[{"op":"test","path":"/data/x","value":"9"}]\''),
        Step('patch cm c --type=json -p \'[{"op":"remove","path":"/data/nosuch"}]\''),
        Step('patch cm c --type=json -p \'[{"op":"nosuch","path":"/data"}]\''),
        Step("patch cm c --type=json -p '{}'"),
        Step('patch cm c --type=merge -p \'{"data":{"b":1}}\''),
        Step("patch cm c --type=merge -p '{\"nosuch\":1}'"),
        Step('patch cm c -p \'{"data":{"$patch":"replace","z":"1"}}\''),
        Step("get cm c -o jsonpath='{.data}'"),
        Step(
            'patch svc web -p \'{"spec":{"ports":[{"port":443,"name":"https"}]}}\''
            " -o jsonpath='{.spec.ports[*].port}'"
        ),
        Step(
            'patch pod p -p \'{"spec":{"containers":[{"name":"main","image":"python:3.11"}]}}\''
            " -o jsonpath='{.spec.containers[*].image}'"
        ),
        Step('patch pod p -p \'{"spec":{"restartPolicy":"Always"}}\''),
        Step("set image pod/p main=busybox:1.36"),
        Step(
            "patch job j --subresource=status --type=merge"
            ' -p \'{"status":{"conditions":[{"type":"Mine","status":"True"}]}}\''
            " -o jsonpath='{.status.conditions[*].type}'"
        ),
        Step('patch job j --type=merge -p \'{"status":{"failed":9}}\''),
        Step("get job j -o jsonpath='{.status.failed}' --subresource=status"),
        Step('patch job j -p \'{"spec":{"completions":3}}\''),
        Step('patch job j -p \'{"spec":{"parallelism":-3}}\''),
        Step("patch cm absent -p '{}'"),
        Step("label cm c tier=front"),
        Step("label cm c tier=back"),
        Step("label cm c tier=back --overwrite"),
        Step("label cm c tier-"),
        Step("label cm c 'bad key=1'"),
        Step("label cm c key='bad value'"),
        Step("annotate cm c note='any text: at all'"),
        Step("annotate cm --all note- --dry-run=server"),
        Step("replace -f -", config_map("c", "a: one")),
        Step("replace -f -", config_map("absent")),
        Step("replace --force -f -", config_map("c", "a: one")),
        Step("edit cm c", environment=_SED),
        Step("get cm c -o jsonpath='{.data}'"),
        Step("edit cm c", environment=_NOTHING),
        Step("edit pod p", environment={"EDITOR": "sed -i s/Never/Always/"}, sorted=True),
    ),
)

_TREE = "get jobs,pods -o custom-columns=KIND:.kind,OWNER:.metadata.ownerReferences[*].name"

_DELETE = Scene(
    "delete",
    (
        *(
            step
            for how in ("background", "foreground", "orphan")
            for step in (
                Step("create -f -", job(how, "sleep 600"), shown=False),
                Step(f"wait --for=jsonpath={{.status.active}}=1 job/{how} --timeout=60s"),
                Step(f"delete job {how} --cascade={how}"),
                Step(f"wait --for=delete pod -l job-name={how} --timeout=4s"),
                Step(_TREE),
            )
        ),
        Step("delete pods --all --grace-period=0 --force"),
        Step("create -f -", several(*map(config_map, "abcd"), pod("p"), pod("q")), shown=False),
        Step("delete cm a"),
        Step("delete cm a"),
        Step("delete cm a --ignore-not-found"),
        Step("delete cm b c -o name"),
        Step("delete cm d --dry-run=server"),
        Step("delete cm d --dry-run=client"),
        Step("delete pod p --wait=false"),
        Step("delete pods --all --now"),
        Step("get pods"),
        Step("delete cm --all"),
        Step("delete cm"),
        Step("delete nosuchkind x"),
        Step("delete namespace absent"),
        Step("create -f -", config_map("f"), shown=False),
        Step('patch cm f -p \'{"metadata":{"finalizers":["example.com/mine"]}}\''),
        Step("delete cm f --timeout=1s"),
        Step("get cm f -o jsonpath='{.metadata.deletionGracePeriodSeconds}'"),
        Step('patch cm f -p \'{"metadata":{"finalizers":null}}\''),
        Step("get cm f"),
        Step("delete sa default", shown=False),
        Step("wait --for=create sa/default --timeout=20s", shown=False),
    ),
)

_CREATE = Scene(
    "create",
    (
        Step("create job j --image=busybox:1.36 -- echo hello"),
        Step("create job k --image=x --dry-run=client -o yaml -- true"),
        Step("create job k --from=job/j --dry-run=server -o jsonpath='{.spec.completions}'"),
        Step("create configmap c --from-literal=a=1 --from-literal=b=2 -o yaml"),
        Step("create secret generic s --from-literal=a=1"),
        Step("create quota q --hard=pods=9"),
        Step("create quota r --hard=nosuch=9"),
        Step("create role r --verb=get --resource=pods,jobs.batch"),
        Step("create role r --verb=get --resource=nosuch"),
        Step("create rolebinding b --role=r --serviceaccount={ns}:robot --user=carol"),
        Step("auth can-i get jobs --as carol"),
        Step("create serviceaccount robot"),
        Step("create token robot", only="^"),
        Step("create token robot --duration=1s"),
        Step("create token absent"),
        Step("create service clusterip web --tcp=80:8080"),
        Step("create namespace {ns}"),
        Step("create namespace Bad_Name"),
        Step("create priorityclass p-{ns} --value=5 --dry-run=server"),
        Step("run r --image=busybox:1.36 --restart=Never -- true"),
        Step("expose pod r --port=80 --name=exposed"),
        Step("create ingress i --rule=example.com/=web:80"),
        Step("create deployment d --image=busybox:1.36"),
        Step("create cronjob c --image=busybox:1.36 --schedule='* * * * *' -- true"),
        Step("get deployments -o name"),
        Step("scale job/j --replicas=2"),
    ),
)

_CUSTOM = Scene(
    "custom",
    (
        Step("create -f -", DEFINITION),
        Step("wait --for=condition=Established crd/boats.{ns}.example.com --timeout=30s"),
        Step("get crd boats.{ns}.example.com"),
        Step("create -f -", DEFINITION),
        # Until what is to be found by kubectl is there too.
        Step("wait --for=create boat/none --timeout=3s", shown=False),
        Step("create -f -", boat("length: 9")),
        Step("get boats"),
        Step("get bt a -o yaml"),
        Step("apply -f -", boat("length: 9, name: eve", "b")),
        Step("apply -f -", boat("length: 7, name: eve", "b")),
        Step("apply --server-side -f -", boat("length: 5", "c")),
        Step("apply -f -", boat("length: 0, kind: raft, name: Titanic-2000", "d"), sorted=True),
        Step("apply -f -", boat("name: x", "d")),
        Step("apply -f -", boat("length: long", "d")),
        Step("create -f -", boat("length: 1, wheels: 4", "d")),
        Step("create -f - --validate=false", boat("length: 1, wheels: 4", "d")),
        Step("get boat d -o jsonpath='{.spec}'"),
        Step('patch boat a --type=merge -p \'{"spec":{"length":10}}\''),
        Step('patch boat a -p \'{"spec":{"length":10}}\''),
        Step('patch boat a --subresource=status --type=merge -p \'{"status":{"afloat":true}}\''),
        Step("wait --for=jsonpath={.status.afloat}=true boat/a --timeout=5s"),
        Step("get boat a -o jsonpath='{.metadata.generation} {.spec} {.status}'"),
        Step("describe boat a"),
        Step("get boats -A -l x=y"),
        Step("delete boat a"),
        Step("delete crd boats.{ns}.example.com"),
        Step("get boats"),
        Step("create -f -", DEFINITION.replace("plural: boats", "plural: ships")),
        Step("create -f -", DEFINITION.replace("storage: true", "storage: false")),
    ),
    cleanup="delete crd boats.{ns}.example.com --ignore-not-found",
)

SCENES = (_APPLY, _PATCH, _DELETE, _CREATE, _CUSTOM)
