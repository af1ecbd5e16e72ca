# SPDX-License-Identifier: Apache-2.0
"""The Pod Security Standard `restricted`, rule by rule, with exactly the exceptions that docs/kubernetes.md names."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.kubernetes import RENDERINGS, containers, one, pods, rendered

Spec = dict[str, Any]
# (rendering, pod) -> rules that the pod may break. The namespace's label must allow them.
EXCEPTIONS = {("ascend, driver mounts", "vlm"): {"HostPath Volumes", "Volume Types"}}
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip
SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}  # fmt: skip
SELINUX_TYPES = {None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}


def contexts(spec: Spec) -> list[Spec]:
    """The pod's security context, and each container's."""
    return [spec.get("securityContext") or {}, *own_contexts(spec)]


def own_contexts(spec: Spec) -> list[Spec]:
    return [container.get("securityContext") or {} for container in containers(spec)]


def effective(spec: Spec, key: str) -> list[Any]:
    """The value of a field that a container inherits from its pod, for each container."""
    return [own.get(key, (spec.get("securityContext") or {}).get(key)) for own in own_contexts(spec)]


def handlers(container: Spec) -> list[Spec]:
    """Probes and lifecycle hooks."""
    probes = [container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe") if name in container]
    return [*probes, *(container.get("lifecycle") or {}).values()]


# Name of a rule in the standard -> whether a pod keeps it.
RULES: dict[str, Callable[[Spec], bool]] = {
    "HostProcess": lambda s: not any((c.get("windowsOptions") or {}).get("hostProcess") for c in contexts(s)),
    "Host Namespaces": lambda s: not any(s.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")),
    "Privileged Containers": lambda s: not any(c.get("privileged") for c in own_contexts(s)),
    "Capabilities": lambda s: all(
        "ALL" in (c.get("capabilities") or {}).get("drop", ())
        and set((c.get("capabilities") or {}).get("add", ())) <= {"NET_BIND_SERVICE"}
        for c in own_contexts(s)
    ),
    "HostPath Volumes": lambda s: not any("hostPath" in volume for volume in s.get("volumes", ())),
    "Host Ports": lambda s: not any(port.get("hostPort") for c in containers(s) for port in c.get("ports", ())),
    "Host Probes / Lifecycle Hooks": lambda s: (
        not any(
            (hook.get(kind) or {}).get("host")
            for c in containers(s)
            for hook in handlers(c)
            for kind in ("httpGet", "tcpSocket")
        )
    ),
    "AppArmor": lambda s: all(
        (c.get("appArmorProfile") or {}).get("type", "RuntimeDefault") in ("RuntimeDefault", "Localhost")
        for c in contexts(s)
    ),
    "SELinux": lambda s: all(
        (c.get("seLinuxOptions") or {}).get("type") in SELINUX_TYPES
        and not {"user", "role"} & {key for key, value in (c.get("seLinuxOptions") or {}).items() if value}
        for c in contexts(s)
    ),
    "/proc Mount Type": lambda s: all(c.get("procMount", "Default") == "Default" for c in own_contexts(s)),
    "Sysctls": lambda s: all(entry["name"] in SYSCTLS for entry in (s.get("securityContext") or {}).get("sysctls", ())),
    "Volume Types": lambda s: all(set(volume) - {"name"} <= VOLUMES for volume in s.get("volumes", ())),
    "Privilege Escalation": lambda s: all(c.get("allowPrivilegeEscalation") is False for c in own_contexts(s)),
    "Running as Non-root": lambda s: all(value is True for value in effective(s, "runAsNonRoot")),
    "Running as Non-root user": lambda s: all(value != 0 for value in effective(s, "runAsUser")),
    "Seccomp": lambda s: all(
        (value or {}).get("type") in ("RuntimeDefault", "Localhost") for value in effective(s, "seccompProfile")
    ),
}
# For each rule a change of a pod that breaks it: path of keys, and the value put there.
BREAKS: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "HostProcess": (("securityContext", "windowsOptions"), {"hostProcess": True}),
    "Host Namespaces": (("hostPID",), True),
    "Privileged Containers": (("containers", 0, "securityContext", "privileged"), True),
    "Capabilities": (("containers", 0, "securityContext", "capabilities", "add"), ["SYS_ADMIN"]),
    "HostPath Volumes": (("volumes", 0), {"name": "models", "hostPath": {"path": "/"}}),
    "Host Ports": (("containers", 0, "ports", 0, "hostPort"), 8000),
    "Host Probes / Lifecycle Hooks": (("containers", 0, "readinessProbe", "httpGet", "host"), "127.0.0.1"),
    "AppArmor": (("containers", 0, "securityContext", "appArmorProfile"), {"type": "Unconfined"}),
    "SELinux": (("securityContext", "seLinuxOptions"), {"type": "spc_t"}),
    "/proc Mount Type": (("containers", 0, "securityContext", "procMount"), "Unmasked"),
    "Sysctls": (("securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}]),
    "Volume Types": (("volumes", 0), {"name": "models", "nfs": {"server": "a", "path": "/"}}),
    "Privilege Escalation": (("containers", 0, "securityContext", "allowPrivilegeEscalation"), None),
    "Running as Non-root": (("containers", 0, "securityContext", "runAsNonRoot"), False),
    "Running as Non-root user": (("securityContext", "runAsUser"), 0),
    "Seccomp": (("securityContext", "seccompProfile"), {"type": "Unconfined"}),
}


def broken(spec: Spec) -> set[str]:
    return {name for name, keeps in RULES.items() if not keeps(spec)}


@pytest.mark.parametrize("name", RENDERINGS)
def test_pods_break_no_rule_but_the_documented_ones(name: str):
    objects = rendered(name)
    found = {pod: broken(spec) for pod, spec in pods(objects).items()}
    assert found == {pod: EXCEPTIONS.get((name, pod), set()) for pod in found}
    enforced = one(objects, "Namespace", "paddleocr-vl")["metadata"]["labels"]
    level = "privileged" if any(found.values()) else "restricted"
    assert enforced["pod-security.kubernetes.io/enforce"] == level
    assert enforced["pod-security.kubernetes.io/warn"] == "restricted"


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_broken_by_what_it_forbids(rule: str):
    spec = copy.deepcopy(pods(rendered("cpu"))["vlm"])
    path, value = BREAKS[rule]
    place: Any = spec
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert rule in broken(spec)


@pytest.mark.parametrize("name", RENDERINGS)
def test_beyond_the_standard(name: str):
    """A read-only root, no token, no variables made of services' names, memory with a limit, closed networks."""
    objects = rendered(name)
    for pod, spec in pods(objects).items():
        assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False, pod
        for container in containers(spec):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True, pod
            assert {"cpu", "memory"} <= set(container["resources"]["requests"]), pod
            assert "memory" in container["resources"]["limits"], pod
    for item in objects:
        if item["kind"] == "ServiceAccount":
            assert item["automountServiceAccountToken"] is False
    nothing = one(objects, "NetworkPolicy", "nothing")["spec"]
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert "egress" not in one(objects, "NetworkPolicy", "vlm")["spec"]
