# SPDX-License-Identifier: Apache-2.0
"""The cluster: pods of Deployments and Jobs as our objects ask for, Services in front, evictions within budgets."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.kubernetes import Facts, one
from tests.support.simulated_names import SimulatedNames

from .pod import Pod
from .service import Address, ServiceProxy
from .states import States

DOMAIN = "cluster.local"
NAMES_PORT = 53  # resolv.conf names no other


class Evicted(Exception):
    """An eviction that the pod's disruption budget forbids now."""


class Cluster:
    """`apply` makes pods of what kubectl rendered; `close` ends everything.

    `claims` are folders by claim, `secrets` texts by Secret and key. Services answer at `gateway`, the node's address
    in the pods' network.
    """

    def __init__(
        self,
        docker: Callable[..., Any],
        folder: Path,
        namespace: str,
        claims: Mapping[str, Path],
        secrets: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._docker, self._folder, self._namespace = docker, folder, namespace
        self._states = States(docker, namespace)
        self._claims, self._secrets = claims, secrets
        self._network = f"{namespace}-pods"
        self._clear()  # what an earlier run left that was killed
        docker("network", "create", self._network)
        self.gateway: str = json.loads(docker("network", "inspect", self._network).stdout)[0]["IPAM"]["Config"][0][
            "Gateway"
        ]
        self._resolver = folder / "resolv.conf"
        domains = f"{namespace}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}"
        self._resolver.write_text(f"nameserver {self.gateway}\nsearch {domains}\noptions ndots:5\n")
        self._numbers = itertools.count(1)
        self._proxies: dict[int, ServiceProxy] = {}
        self.objects: list[Facts] = []
        self.pods: list[Pod] = []
        self._owner: dict[str, tuple[str, Facts]] = {}  # of a pod: its workload, and the template that it was made of
        self._names = SimulatedNames(self._find, self.gateway, NAMES_PORT)

    def apply(self, objects: list[Facts], seconds: float) -> None:
        """As `kubectl apply` and `rollout status`: returns when all pods of Deployments are ready. Jobs run when
        `run_job` is called."""
        self.objects = objects
        for item in objects:
            if item["kind"] == "Service" and item["spec"].get("clusterIP") != "None":
                self._serve(item)
        workloads = [item for item in objects if item["kind"] == "Deployment"]
        for item in workloads:
            self._roll(item, seconds)
        for item in workloads:
            self.wait_ready(item["metadata"]["name"], seconds)

    def run_job(self, name: str, seconds: float) -> str:
        """Run a Job's pod until it succeeds; returns its output."""
        template = one(self.objects, "Job", name)["spec"]["template"]
        pod = self.start(name, template)
        self.wait_for(lambda: pod.status is not None, seconds, f"the end of the Job {name}", pod)
        (container,) = pod.containers.values()
        said = container.logs()
        self._forget(pod)
        assert pod.status == 0, said
        return said

    def of(self, workload: str) -> list[Pod]:
        """Pods of a Deployment that are not about to end."""
        return [pod for pod in self.pods if self._owner[pod.name][0] == workload and not pod.terminating]

    def start(self, workload: str, template: Facts) -> Pod:
        """A pod of the template."""
        name = f"{workload}-{next(self._numbers)}"
        pod = Pod(
            name,
            template,
            self.objects,
            namespace=self._namespace,
            network=self._network,
            folder=self._folder,
            resolver=self._resolver,
            docker=self._docker,
            states=self._states,
            claims=self._claims,
            secrets=self._secrets,
        )
        self._owner[name] = (workload, template)
        self.pods.append(pod)
        return pod

    def evict(self, pod: Pod) -> None:
        """As a node's drain does: within the budget; the controller makes another pod at once. Raises Evicted."""
        workload, template = self._owner[pod.name]
        wanted = one(self.objects, "Deployment", workload)["spec"]
        for item in self.objects:
            if item["kind"] == "PodDisruptionBudget" and self._selected(item["spec"]["selector"]["matchLabels"], pod):
                healthy = sum(other.ready for other in self.of(workload))
                if healthy - 1 < wanted["replicas"] - item["spec"]["maxUnavailable"]:
                    raise Evicted(f"{pod.name}: {healthy} of {wanted['replicas']} pods are ready")
        pod.terminate()
        if wanted["strategy"]["type"] == "Recreate":
            self.wait_for(lambda: pod.ended, 300, f"the end of {pod.name}", pod)
        self.start(workload, template)

    def wait_ready(self, workload: str, seconds: float) -> None:
        def ready() -> bool:
            return all(pod.ready for pod in self.of(workload))

        self.wait_for(ready, seconds, f"all pods of {workload} are ready", *self.of(workload))

    def expose(self, port: int, target: Address) -> None:
        """Something outside of the cluster, which pods reach at the gateway. A second time it changes nothing."""
        if port not in self._proxies:
            self._proxies[port] = ServiceProxy((self.gateway, port), lambda: [target])

    def wait_for(self, condition: Callable[[], bool], seconds: float, what: str, *pods: Pod) -> None:
        """Raises what a pod's own threads stumbled over: such a pod would never come or go."""
        deadline = time.monotonic() + seconds
        while not condition():
            for pod in self.pods:
                if pod.trouble is not None:
                    raise AssertionError(f"{pod.name}: {pod.trouble}") from pod.trouble
            if time.monotonic() > deadline:
                logs = "\n".join(each.logs() for pod in pods for each in pod.containers.values())
                raise AssertionError(f"waited {seconds:.0f} s for: {what}\n{logs[-6000:]}")
            time.sleep(0.5)

    def close(self) -> None:
        self._names.close()
        for proxy in self._proxies.values():
            proxy.close()
        for pod in self.pods:
            if not pod.ended:
                pod.remove()
        self._clear()

    def _clear(self) -> None:
        left = self._docker("ps", "--all", "--quiet", "--filter", f"network={self._network}").stdout.split()
        if left:
            self._docker("rm", "--force", *left)
        self._docker("network", "rm", self._network, check=False)

    def _roll(self, item: Facts, seconds: float) -> None:
        """Pods of the Deployment's template in place of those of another one, in its strategy's order."""
        name, spec = item["metadata"]["name"], item["spec"]
        template, strategy = spec["template"], spec["strategy"]
        old = [pod for pod in self.of(name) if self._owner[pod.name][1] != template]
        if strategy["type"] == "Recreate":
            self._end(old, seconds)
            old = []
        for pod in old:
            surge = strategy["rollingUpdate"]["maxSurge"]
            if not surge:
                self._end([pod], seconds)
            self.start(name, template)
            self.wait_ready(name, seconds)
            if surge:
                self._end([pod], seconds)
        while len(self.of(name)) < spec["replicas"]:
            self.start(name, template)

    def _end(self, pods: list[Pod], seconds: float) -> None:
        for pod in pods:
            pod.terminate()
        self.wait_for(lambda: all(pod.ended for pod in pods), seconds, "the end of the old pods", *pods)

    def _forget(self, pod: Pod) -> None:
        pod.remove()
        self.pods.remove(pod)

    def _serve(self, service: Facts) -> None:
        (port,) = service["spec"]["ports"]
        if port["port"] not in self._proxies:
            name = service["metadata"]["name"]
            self._proxies[port["port"]] = ServiceProxy(
                (self.gateway, port["port"]), lambda: self._targets(one(self.objects, "Service", name))
            )

    def _targets(self, service: Facts) -> list[Address]:
        (port,) = service["spec"]["ports"]
        return [(pod.address, port_of(pod, port["targetPort"])) for pod in self._behind(service)]

    def _behind(self, service: Facts) -> list[Pod]:
        """The endpoints: ready pods that are not about to end. A Service that publishes what is not ready keeps those
        that end too, until they are gone (Kubernetes, EndpointSlice's condition `ready`)."""
        every = service["spec"].get("publishNotReadyAddresses", False)
        return [
            pod
            for pod in self.pods
            if self._selected(service["spec"]["selector"], pod)
            and not pod.ended
            and (every or (pod.ready and not pod.terminating))
        ]

    def _find(self, name: str) -> list[str] | None:
        """What the cluster's DNS says: names of Services only."""
        end = f".{self._namespace}.svc.{DOMAIN}"
        if not name.endswith(end):
            return None
        found = [
            item
            for item in self.objects
            if item["kind"] == "Service" and item["metadata"]["name"] == name.removesuffix(end)
        ]
        if not found:
            return None
        if found[0]["spec"].get("clusterIP") == "None":
            return [pod.address for pod in self._behind(found[0])]
        return [self.gateway]

    @staticmethod
    def _selected(labels: Mapping[str, str], pod: Pod) -> bool:
        return labels.items() <= pod.labels.items()


def port_of(pod: Pod, name: str | int) -> int:
    """The port of a pod that a Service's targetPort means."""
    if isinstance(name, int):
        return name
    ports = [
        port["containerPort"]
        for container in pod.containers.values()
        for port in container.given.get("ports", ())
        if port["name"] == name
    ]
    assert len(ports) == 1, f"{pod.name}: {name} is {ports}"
    return ports[0]
