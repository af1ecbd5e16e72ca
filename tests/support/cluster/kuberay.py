# SPDX-License-Identifier: Apache-2.0
"""What KubeRay's operator makes of a RayCluster (ray.io/v1): commands and variables of pods, and the head's Service.

After the controllers of KubeRay's main branch of August 2026 (ray-operator, common/pod.go): `ray start` with
rayStartParams and the operator's own, and an init container that waits for the head. Its probes and its /dev/shm are
left out where the RayCluster brings its own, as ours does.
"""

from __future__ import annotations

import copy

from tests.support.kubernetes import Facts

PORT = 6379
SHELL = ["/bin/bash", "-c", "--"]
# The operator's own parameters; rayStartParams win.
PARAMETERS = {"block": "true", "dashboard-agent-listen-port": "52365", "metrics-export-port": "8080"}
WAITING = """
while true; do
    if ray health-check --address {0}; then
        break
    fi
    sleep 5
done
"""


def head_service(cluster: Facts) -> Facts:
    """The headless Service by which nodes find the head."""
    name = cluster["metadata"]["name"]
    return {
        "kind": "Service",
        "metadata": {"name": f"{name}-head-svc"},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"ray.io/cluster": name, "ray.io/node-type": "head"},
            "ports": [{"name": "gcs", "port": PORT, "targetPort": "gcs"}],
        },
    }


def head(cluster: Facts) -> Facts:
    """The template of the head's pod."""
    return _template(cluster, cluster["spec"]["headGroupSpec"], "head", {})


def node(cluster: Facts, group: Facts) -> Facts:
    """The template of a group's pods."""
    address = f"{_head_name(cluster)}:{PORT}"
    found = _template(cluster, group, "worker", {"address": address})
    (given,) = group["template"]["spec"]["containers"]
    waiting = {key: copy.deepcopy(given[key]) for key in ("image", "securityContext", "env", "volumeMounts")}
    limits = {"cpu": "200m", "memory": "256Mi"}
    waiting |= {"name": "wait-gcs-ready", "command": SHELL, "args": [WAITING.format(address)]}
    waiting["resources"] = {"limits": limits, "requests": limits}
    found["spec"]["initContainers"] = [waiting]
    return found


def _head_name(cluster: Facts) -> str:
    return f"{cluster['metadata']['name']}-head-svc.{cluster['metadata']['namespace']}.svc.cluster.local"


def _template(cluster: Facts, group: Facts, kind: str, own: dict[str, str]) -> Facts:
    template = copy.deepcopy(group["template"])
    name = cluster["metadata"]["name"]
    template["metadata"]["labels"] |= {"ray.io/cluster": name, "ray.io/node-type": kind, "ray.io/is-ray-node": "yes"}
    (container,) = template["spec"]["containers"]
    limit = container["resources"]["limits"]["memory"]
    parameters = PARAMETERS | {"memory": str(int(limit.removesuffix("Gi")) << 30)} | own | group["rayStartParams"]
    given = [f"--{key}" if value == "true" else f"--{key}={value}" for key, value in sorted(parameters.items())]
    start = " ".join(["ray start", *(["--head"] if kind == "head" else []), *given])
    container["command"], container["args"] = SHELL, [f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start}"]
    address = "127.0.0.1" if kind == "head" else _head_name(cluster)
    container["env"] = [
        *container["env"],
        {"name": "RAY_CLUSTER_NAME", "value": name},
        {"name": "RAY_PORT", "value": str(PORT)},
        {"name": "RAY_ADDRESS", "value": f"{address}:{PORT}"},
        {"name": "RAY_USAGE_STATS_KUBERAY_IN_USE", "value": "1"},
        {"name": "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "value": "1"},
        {"name": "KUBERAY_GEN_RAY_START_CMD", "value": start},
    ]
    return template
