# SPDX-License-Identifier: Apache-2.0
"""Each pod's container against the service of compose.yaml and the image that it runs: equal, but for one table."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

import parser_memory
from container.vlm import DEFAULTS
from npu_smi import DRIVER_DEVICES
from tests.support.kubernetes import compose_service, environment, one, pods, rendered
from tests.support.paths import ROOT

Facts = dict[str, Any]
NAMESPACE = "paddleocr-vl"
# (service, hardware) -> its image's Dockerfile.
DOCKERFILES = {
    ("vlm", "cpu"): "cpu",
    ("parser", "cpu"): "cpu",
    ("vlm", "ascend"): "ascend",
    ("parser", "ascend"): "cpu",
}
SECONDS = {"s": 1, "m": 60}
PARSER_NAMES = ",".join(["parser", *(f"parser.{NAMESPACE}{end}" for end in ("", ".svc", ".svc.cluster.local"))])
# All that differs: (service, what) -> what compose has, what the pod has, why. None: not there.
DIFFERENCES: dict[tuple[str, str], tuple[Any, Any, str]] = {
    **{
        (service, "env SETTINGS_PLACE"): (
            ".env beside compose.yaml",
            f"the ConfigMap {service}-settings (deploy/kubernetes/base/{service}.env)",
            "each says where its own are set",
        )
        for service in ("vlm", "parser")
    },
    ("parser", "env PARSER_PUBLISHED_ADDRESS"): ("127.0.0.1", "0.0.0.0", "the cluster reaches it: keys are needed"),
    ("parser", "env PARSER_ALLOWED_HOSTS"): ("parser,", PARSER_NAMES, "the service's names in a cluster"),
    ("parser", "env PARSER_API_KEYS_FILE"): (None, "/etc/paddleocr-vl/keys/api_keys", "keys come from a Secret"),
    ("parser", "mount /etc/paddleocr-vl/keys"): (None, "read-only secret", "the same"),
    ("vlm", "mount /var/lib/paddleocr-vl"): (
        "volume",
        "emptyDir 10Gi",
        "pods come and go; a claim for each is no gain",
    ),
    ("parser", "mount /var/lib/paddleocr-vl"): ("volume", "claim", "a cluster's kind of volume"),
    ("vlm", "mount /models"): ("read-only bind", "read-only claim", "a cluster's kind of volume"),
    ("parser", "mount /models"): ("read-only bind", "read-only claim", "a cluster's kind of volume"),
    ("vlm", "restart when it never starts"): (False, True, "the kubelet restarts what a start-up probe gave up"),
    ("parser", "restart when it never starts"): (False, True, "the same"),
    ("parser", "restart when it hangs"): (
        False,
        True,
        "/health is the process alone; nothing inside watches the parser",
    ),
    ("vlm", "threads and processes"): (8192, None, "a pod has no such field; the kubelet's podPidsLimit bounds it"),
    ("parser", "threads and processes"): (4096, None, "the same"),
}
OF_HARDWARE: dict[str, dict[tuple[str, str], tuple[Any, Any, str]]] = {
    "cpu": {
        ("vlm", "env VLM_THREADS"): (None, "4", "it would count the cores of a node that it shares"),
    },
    "ascend": {
        ("parser", "memory"): ("41g", "13g", "for 32 workers on a node; a pod asks for 4 cores and has as many"),
        ("vlm", "memory"): ("128g", "8g", "one die of sixteen"),
        ("vlm", "devices"): (
            [*(f"/dev/davinci{die}" for die in range(16)), *(f"/dev/{name}" for name in DRIVER_DEVICES)],
            ["huawei.com/Ascend910"],
            "the device plugin brings the files of the die that it chose",
        ),
        **{
            ("vlm", f"mount {path}"): ("read-only bind", None, "Ascend Docker Runtime brings the driver")
            for path in (
                "/usr/local/dcmi",
                "/usr/local/bin/npu-smi",
                "/usr/local/Ascend/driver/lib64",
                "/usr/local/Ascend/driver/version.info",
                "/etc/ascend_install.info",
            )
        },
    },
}


def bytes_of(text: str) -> int:
    """`2g`, `2Gi`: both mean GiB."""
    found = re.fullmatch(r"(\d+)([gm])i?", text.lower())
    assert found, f"{text!r}: expected a size like 2g or 2Gi"
    return int(found[1]) << {"g": 30, "m": 20}[found[2]]


def seconds(text: str) -> int:
    return int(text[:-1]) * SECONDS[text[-1]]


def of_image(service: str, hardware: str) -> Facts:
    """What the last stage of that name in the Dockerfile says: user, port, probe, entry point."""
    text = (ROOT / f"Dockerfile.{DOCKERFILES[service, hardware]}").read_text()
    stage = re.search(rf"^FROM \S+ AS {service}\n(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL)
    assert stage
    user, group = re.findall(r"^USER (\d+):(\d+)$", stage[1], re.MULTILINE)[-1]
    probe = re.search(r"^HEALTHCHECK (.*) \\\n +CMD (\[.*\])$", stage[1], re.MULTILINE)
    assert probe
    options = dict(word.removeprefix("--").split("=") for word in shlex.split(probe[1]))
    address = re.search(r"127\.0\.0\.1:(\d+)(/\S*)", json.loads(probe[2])[-1])
    exposed = re.search(r"^EXPOSE (\d+)$", stage[1], re.MULTILINE)
    assert address and exposed
    return {
        "user": int(user),
        "group": int(group),
        "port": int(exposed[1]),
        "ready": (int(address[1]), address[2]),
        "every": seconds(options["interval"]),
        "probe waits": seconds(options["timeout"]),
        "tries": int(options["retries"]),
        "start takes": seconds(options["start-period"]),
    }


def of_compose(service: str, hardware: str) -> Facts:
    """What an engine does with the service."""
    found = compose_service(service, hardware)
    facts = of_image(service, hardware) | {
        "command": found.get("command"),
        "entry point": found.get("entrypoint"),
        "capabilities": (found["cap_drop"], found.get("cap_add", [])),
        "no new privileges": found["security_opt"] == ["no-new-privileges:true"],
        "read-only root": found["read_only"],
        "privileged": found.get("privileged", False),
        "memory": found["mem_limit"],
        "seconds to end": seconds(found["stop_grace_period"]),
        "threads and processes": int(found["pids_limit"]),
        "devices": found.get("devices", []),
        "restart when it never starts": False,
        "restart when it hangs": False,
    }
    facts |= {f"env {name}": str(value) for name, value in found["environment"].items() if value}
    for volume in found["volumes"]:
        if isinstance(volume, dict):
            facts[f"mount {volume['target']}"] = "read-only bind" if volume.get("read_only") else "bind"
        else:
            facts[f"mount {volume.split(':')[1]}"] = "volume"
    for entry in found["tmpfs"]:
        path, _, options = entry.partition(":")
        size = dict(option.split("=") for option in options.split(","))["size"]
        facts[f"mount {path}"] = f"memory {bytes_of(size)}"
    if size := found.get("shm_size"):
        facts["mount /dev/shm"] = f"memory {bytes_of(size)}"
    groups = [int(group) for group in found.get("group_add", [])]
    return facts | {"groups": groups, "memory": found["mem_limit"]}


def kind(volume: Facts, read_only: bool) -> str:
    """A volume in words."""
    if empty := volume.get("emptyDir"):
        return f"memory {bytes_of(empty['sizeLimit'])}" if empty.get("medium") else f"emptyDir {empty['sizeLimit']}"
    word = {"persistentVolumeClaim": "claim", "secret": "secret", "hostPath": "bind"}[
        next(k for k in volume if k != "name")
    ]
    return f"read-only {word}" if read_only else word


def of_pod(service: str, rendering: str) -> Facts:
    """The same facts of the Deployment's pod."""
    objects = rendered(rendering)
    spec = pods(objects)[service]
    (container,) = spec["containers"]
    own, pod = container["securityContext"], spec["securityContext"]
    (port,) = container["ports"]
    ready, start = container["readinessProbe"], container["startupProbe"]
    assert ready["httpGet"]["port"] == start["httpGet"]["port"] == port["name"]
    resources = container["resources"]
    memory = resources["limits"]["memory"]
    variables = environment(objects, container, NAMESPACE)
    facts: Facts = {
        "user": pod["runAsUser"],
        "group": pod["runAsGroup"],
        "port": port["containerPort"],
        "ready": (port["containerPort"], ready["httpGet"]["path"]),
        "every": ready["periodSeconds"],
        "probe waits": ready["timeoutSeconds"],
        "tries": ready["failureThreshold"],
        "start takes": start["periodSeconds"] * start["failureThreshold"],
        "command": container.get("args"),
        "entry point": container.get("command"),
        "capabilities": (own["capabilities"]["drop"], own["capabilities"].get("add", [])),
        "no new privileges": own["allowPrivilegeEscalation"] is False,
        "read-only root": own["readOnlyRootFilesystem"],
        "privileged": own.get("privileged", False),
        "memory": memory.replace("Gi", "g"),
        "seconds to end": spec["terminationGracePeriodSeconds"],
        "threads and processes": None,
        "devices": [name for name in resources["limits"] if "/" in name],
        "restart when it never starts": "startupProbe" in container,
        "restart when it hangs": "livenessProbe" in container,
        "groups": pod.get("supplementalGroups", []),
    }
    facts |= {f"env {name}": value for name, value in variables.items() if value and name != "POD_NAMESPACE"}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in container["volumeMounts"]:
        facts[f"mount {mount['mountPath']}"] = kind(volumes[mount["name"]], mount.get("readOnly", False))
    return facts


@pytest.mark.parametrize("hardware", ["cpu", "ascend"])
@pytest.mark.parametrize("service", ["vlm", "parser"])
def test_a_pod_is_what_compose_starts(service: str, hardware: str):
    compose, pod = of_compose(service, hardware), of_pod(service, hardware)
    found = {
        (service, key): (compose.get(key), pod.get(key))
        for key in compose.keys() | pod.keys()
        # A variable that says what the program does without it is no difference.
        if compose.get(key) != pod.get(key) and key not in defaults(service)
    }
    table = DIFFERENCES | OF_HARDWARE[hardware]
    assert found == {key: values[:2] for key, values in table.items() if key[0] == service}


def defaults(service: str) -> set[str]:
    """Variables that compose passes with the value which they have without it; pods leave them out."""
    passed = compose_service(service, "ascend")["environment"]
    return {f"env {name}" for name, value in DEFAULTS.items() if service == "vlm" and str(passed.get(name)) == value}


def test_pods_with_the_drivers_mounts_have_those_of_compose():
    mounts = {key: value for key, value in of_pod("vlm", "ascend, driver mounts").items() if key.startswith("mount ")}
    compose = {key for key in of_compose("vlm", "ascend") if key.startswith("mount ")}
    assert mounts.keys() == compose
    node = pods(rendered("ascend, driver mounts"))["vlm"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in node["volumes"] if "hostPath" in volume}
    mounted = {m["name"]: m["mountPath"] for m in node["containers"][0]["volumeMounts"] if m["name"] in paths}
    assert paths == mounted and len(paths) == 5


def test_a_node_of_sixteen_pods_is_what_compose_gives_to_sixteen_replicas():
    one_die = bytes_of(of_pod("vlm", "ascend")["memory"])
    assert one_die * one(rendered("ascend"), "Deployment", "vlm")["spec"]["replicas"] == bytes_of("128g")


@pytest.mark.parametrize("name", ["vlm", "parser"])
def test_a_slow_first_install_is_no_failed_roll_out(name: str):
    """Both wait for the weights, and the parser for the VLM, as long as the guide's commands do."""
    guide = (ROOT / "docs/kubernetes.md").read_text()
    [hours] = re.findall(r"job/fetch-models --timeout=(\d+)h", guide)
    [minutes] = re.findall(r"rollout status deployment/vlm --timeout=(\d+)m", guide)
    deadline = one(rendered("cpu"), "Deployment", name)["spec"].get("progressDeadlineSeconds", 600)
    assert deadline > int(hours) * 3600 + int(minutes) * 60


def test_the_parsers_memory_is_enough_for_its_workers():
    """It starts as many as fit, whatever the cores of the node: four in a pod, which asks for as many cores."""
    facts = of_pod("parser", "cpu")
    assert parser_memory.most_workers(bytes_of(facts["memory"])) == 4
