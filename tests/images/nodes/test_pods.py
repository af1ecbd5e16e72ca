# SPDX-License-Identifier: Apache-2.0
"""The overlay `cpu`, and the same with three parsers: its pods as real containers, as they were rendered.

They parse a page, survive evictions in the middle of a job, and drain. The cluster around them is simulated
(tests/support/cluster says what that cannot show).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bundle.progress import say
from tests.images.client import Client, check_job, check_letter
from tests.images.conftest import stage
from tests.images.nodes.conftest import NAMESPACE, READY_S, on_this_machine, queue_secret
from tests.images.project import Project
from tests.support.cluster.cluster import Cluster, Evicted
from tests.support.cluster.container import Container
from tests.support.cluster.pod import Pod
from tests.support.cluster.volumes import size
from tests.support.kubernetes import Facts, environment, rendered
from tests.support.paths import LETTER
from tests.support.png_pdf import pdf_of
from tests.support.postgres import PostgresServer
from tests.support.s3 import S3Server


def status_of(pid: int) -> dict[str, str]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def mounts_of(pid: int) -> dict[str, tuple[str, str]]:
    """Place -> (kind of file system, options) of a process's mounts."""
    lines = (line.split() for line in Path(f"/proc/{pid}/mounts").read_text().splitlines())
    return {place: (kind, options) for _, place, kind, options, *_ in lines}


def check_container(project: Project, pod: Pod, container: Container, cluster: Cluster, secrets: Mapping) -> None:
    """What runs is what was rendered, as the kernel sees it."""
    given, spec = container.given, template_of(cluster, pod)
    facts = json.loads(project.docker("inspect", container.name).stdout)[0]
    assert facts["State"]["Running"] and container.restarts == 0, container.logs()
    image = json.loads(project.docker("image", "inspect", given["image"]).stdout)[0]["Config"]
    program = given.get("command") or image["Entrypoint"]
    assert [facts["Path"], *facts["Args"]] == [*program, *(given.get("args") or image.get("Cmd") or [])]
    pid = facts["State"]["Pid"]
    own = status_of(pid)
    security = spec["securityContext"]
    assert own["Uid"].split() == [str(security["runAsUser"])] * 4
    assert own["Gid"].split() == [str(security["runAsGroup"])] * 4
    assert str(security["fsGroup"]) in own["Groups"].split() and own["NoNewPrivs"] == "1" and own["Seccomp"] == "2"
    assert {int(own[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    listed = project.docker("exec", container.name, "env", "-0").stdout
    given_to = dict(entry.split("=", 1) for entry in listed.split("\0") if "=" in entry)
    wanted = environment(cluster.objects, given, NAMESPACE, secrets)
    assert {name: given_to.get(name) for name in wanted} == wanted
    assert facts["HostConfig"]["Memory"] == size(given["resources"]["limits"]["memory"])
    found = mounts_of(pid)
    assert "ro" in found["/"][1].split(",")
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    for mount in given["volumeMounts"]:
        kind, options = found[mount["mountPath"]]
        read_only = mount.get("readOnly", False)
        assert ("ro" if read_only else "rw") in options.split(","), mount
        empty = volumes[mount["name"]].get("emptyDir", {})
        if empty.get("medium") == "Memory":
            assert kind == "tmpfs" and f"size={size(empty['sizeLimit']) >> 10}k" in options, (mount, options)
        said = project.docker("exec", container.name, "touch", f"{mount['mountPath']}/.written", check=False)
        assert (said.returncode == 0) != read_only, (mount, said.stdout)
    assert "Read-only" in project.docker("exec", container.name, "touch", "/x", check=False).stdout
    assert not any(place.startswith("/var/run/secrets") for place in found)


def template_of(cluster: Cluster, pod: Pod) -> Facts:
    workload = pod.name.rpartition("-")[0]
    return next(
        item["spec"]["template"]["spec"]
        for item in cluster.objects
        if item["kind"] == "Deployment" and item["metadata"]["name"] == workload
    )


def check_all(project: Project, cluster: Cluster, secrets: Mapping) -> list[str]:
    pods = [pod for pod in cluster.pods if not pod.terminating]
    for pod in pods:
        for container in pod.containers.values():
            check_container(project, pod, container, cluster, secrets)
    return sorted(pod.name.rpartition("-")[0] for pod in pods)


@contextmanager
def calling(client: Client) -> Iterator[list[bool]]:
    """A client that asks the whole time, each time by a new connection; yields whether somebody answered, each time."""
    answered: list[bool] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.2):
            answered.append(client.answers())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        yield answered
    finally:
        over.set()
        asking.join()


def wait_for_the_end(cluster: Cluster, pod: Pod) -> None:
    """It ended by itself, before its grace period was over."""
    cluster.wait_for(lambda: pod.ended, 180, f"the end of {pod.name}", pod)
    say(f"  {pod.name} ended in {pod.seconds_to_end:.0f} s")
    assert pod.seconds_to_end < pod.grace


def test_every_container_is_what_was_rendered(project: Project, cluster: Cluster, secrets: Mapping):
    assert check_all(project, cluster, secrets) == ["balancer", "balancer", "parser", "vlm", "vlm"]


def test_the_job_takes_weights_that_were_filled_in_by_hand(cluster: Cluster):
    assert "/models/PaddleOCR-VL is whole" in cluster.run_job("fetch-models", 300)


def test_a_page_is_parsed(client: Client):
    check_letter(client.parse(LETTER))


def test_a_vlm_pod_is_evicted_in_the_middle_of_a_job(cluster: Cluster, client: Client):
    job = client.submit(pdf_of(LETTER.read_bytes(), 6))
    client.wait_for_pages(job, 1)
    first, second = cluster.of("vlm")
    with stage("evicting a pod of vlm"):
        cluster.evict(first)
        with pytest.raises(Evicted):
            cluster.evict(second)
        check_job(client, job, 6)
        wait_for_the_end(cluster, first)
        cluster.wait_ready("vlm", READY_S)
    assert len(cluster.of("vlm")) == 2


def test_a_node_is_drained_in_the_middle_of_a_job(cluster: Cluster, client: Client):
    """Each pod is evicted when its budget allows it; the parser's queue is on its claim, and the next pod goes on."""
    job = client.submit(pdf_of(LETTER.read_bytes(), 8))
    client.wait_for_pages(job, 1)
    with stage("draining"):
        for workload in ("balancer", "parser"):
            for pod in cluster.of(workload):
                cluster.evict(pod)
                wait_for_the_end(cluster, pod)
                cluster.wait_ready(workload, READY_S)
        check_job(client, job, 8)


def test_three_parsers_share_a_queue(
    project: Project,
    cluster: Cluster,
    client: Client,
    secrets: dict[str, Mapping[str, str]],
    postgres: PostgresServer,
    s3: S3Server,
):
    """The component shared-queue: a parser is evicted in the middle of a job, and no client notices."""
    secrets["parser-queue"] = queue_secret(cluster, postgres, s3)
    with stage("three parsers"):
        cluster.apply(on_this_machine(rendered("cpu, shared queue")), READY_S)
    assert check_all(project, cluster, secrets) == ["balancer"] * 2 + ["parser"] * 3 + ["vlm"] * 2
    job = client.submit(pdf_of(LETTER.read_bytes(), 10))
    client.wait_for_pages(job, 1)
    evicted = cluster.of("parser")[0]
    with stage("evicting a parser"), calling(client) as answered:
        cluster.evict(evicted)
        with pytest.raises(Evicted):
            cluster.evict(cluster.of("parser")[0])
        check_job(client, job, 10)
        wait_for_the_end(cluster, evicted)
        cluster.wait_ready("parser", READY_S)
    say(f"  {len(answered)} calls meanwhile, {answered.count(False)} of them refused")
    assert answered and all(answered), "clients were refused while a parser ended"
