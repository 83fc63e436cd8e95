"""Objects that say as little as they may: the API has to fill in the rest."""

from typing import Any

import yaml

Json = dict[str, Any]

_TEXT = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  automountServiceAccountToken: false
  initContainers:
    - {name: i, image: busybox, command: ["true"], resources: {limits: {cpu: 1}}}
  containers:
    - name: c
      image: busybox:1.36
      ports: [{containerPort: 80}]
      env:
        - {name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
        - {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
        - {name: E}
        - {name: F, value: ""}
      resources:
        limits: {cpu: "0.5", memory: 1024Mi}
        requests: {cpu: 0.1, ephemeral-storage: 1.5Gi}
      livenessProbe: {httpGet: {port: 80}}
      readinessProbe: {exec: {command: [x]}}
      lifecycle: {preStop: {httpGet: {port: 80}}}
    - {name: d, image: "registry:5000/busybox"}
    - {name: e, image: "registry/busybox:latest"}
    - {name: f, image: "registry/busybox@sha256:SUM"}
  volumes:
    - {name: a, configMap: {name: x}}
    - {name: b, secret: {secretName: x}}
    - {name: c, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}
    - name: d
      projected:
        sources:
          - {downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}
          - {serviceAccountToken: {path: x}}
          - {configMap: {name: x}}
    - {name: e, hostPath: {path: /x}}
    - {name: f}
    - {name: g, emptyDir: {sizeLimit: 1024Mi}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}
  template:
    metadata: {labels: {a: b}}
    spec:
      restartPolicy: Never
      containers:
        - {name: c, image: busybox, resources: {limits: {cpu: 1000m}}, ports: [{containerPort: 80}]}
      volumes: [{name: f}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  completions: 3
  completionMode: Indexed
  backoffLimitPerIndex: 1
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, selector: {a: b}}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {ports: [{port: 80}], selector: {a: b}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: silent}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {b: Yg==}
stringData: {a: b}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: s}
spec: {hard: {cpu: 1000m, memory: "1e3"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: s}
spec:
  limits:
    - {type: Container, max: {cpu: 1000m}, min: {memory: 1Ki}}
    - {type: PersistentVolumeClaim, max: {storage: 1Gi}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: s}
provisioner: x/y
"""

OBJECTS: list[Json] = list(yaml.safe_load_all(_TEXT.replace("SUM", "0" * 64)))
