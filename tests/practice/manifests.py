"""Objects for the scenes, in YAML as people write it."""

QUIET = "automountServiceAccountToken: false"  # no volume that only a real cluster adds


def pod(name: str, script: str = "sleep 600", more: str = "", labels: str = "app: x") -> str:
    """A pod of one container that runs a script."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{{labels}}}}}
spec:
  {QUIET}
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  {more or "hostNetwork: false"}
  containers:
  - name: main
    image: busybox:1.36
    command: [sh, -c, {script!r}]
    resources: {{requests: {{cpu: 10m, memory: 16Mi}}, limits: {{memory: 32Mi}}}}
"""


def job(name: str, script: str = "echo done", spec: str = "", pod_spec: str = "") -> str:
    """A Job of one container that runs a script; `spec` is a line of its own."""
    return f"""\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {{app: x}}}}
spec:
  {spec or "backoffLimit: 0"}
  template:
    spec:
      {QUIET}
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      {pod_spec or "hostNetwork: false"}
      containers:
      - name: main
        image: busybox:1.36
        command: [sh, -c, {script!r}]
"""


def config_map(name: str, data: str = "a: '1'", labels: str = "app: x") -> str:
    """A ConfigMap."""
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, labels: {{{labels}}}}}
data: {{{data}}}
"""


def several(*documents: str) -> str:
    """All of them in one file."""
    return "---\n".join(documents)


CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: notes, labels: {app: x}}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {user: alice, password: hunter2}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: web, labels: {app: x}}
spec:
  selector: {app: x}
  ports: [{name: http, port: 80, targetPort: 8080}]
"""
HEADLESS = """\
apiVersion: v1
kind: Service
metadata: {name: nodes}
spec: {clusterIP: None, selector: {app: x}, publishNotReadyAddresses: true}
"""
QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {count/jobs.batch: "1", requests.cpu: "1", configmaps: "3"}}
"""
LIMITS = """\
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec:
  limits:
  - type: Container
    max: {memory: 64Mi}
    default: {memory: 32Mi}
    defaultRequest: {memory: 16Mi}
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.{ns}.example.com}
spec:
  group: {ns}.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Length, type: integer, jsonPath: .spec.length}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            description: What the boat is like.
            required: [length]
            properties:
              length: {type: integer, minimum: 1, description: In metres.}
              kind: {type: string, enum: [sail, motor], default: sail}
              name: {type: string, maxLength: 8, pattern: "^[a-z]*$"}
          status:
            type: object
            properties: {afloat: {type: boolean}}
"""


def boat(spec: str, name: str = "a") -> str:
    """One of the kind that the definition defines."""
    return f"""\
apiVersion: {{ns}}.example.com/v1
kind: Boat
metadata: {{name: {name}}}
spec: {{{spec}}}
"""
