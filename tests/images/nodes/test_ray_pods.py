# SPDX-License-Identifier: Apache-2.0
"""The component `corpus` beside the overlay `cpu`: a RayCluster's pods as real containers parse a corpus in a bucket.

KubeRay's operator is simulated (tests/support/cluster/kuberay.py). Nodes get one core each where the overlay has 16.
"""

from __future__ import annotations

import copy
import json
import secrets as random_secrets
from collections.abc import Mapping

from tests.images.conftest import stage
from tests.images.nodes.conftest import BUCKET, READY_S
from tests.images.project import Project
from tests.support.cluster import kuberay
from tests.support.cluster.cluster import Cluster
from tests.support.kubernetes import one, rendered
from tests.support.paths import DATA
from tests.support.s3 import KEYS, S3Server

NODES, CORES = 2, "1"


def test_a_corpus_in_a_bucket_is_parsed_by_the_pods_of_a_ray_cluster(
    project: Project, cluster: Cluster, secrets: dict[str, Mapping[str, str]], s3: S3Server, corpus_image: str
):
    cluster.expose(BUCKET, ("127.0.0.1", s3.port))
    secrets["corpus-ray"] = {"token": random_secrets.token_hex(32)}
    secrets["corpus-bucket"] = KEYS | {"AWS_ENDPOINT_URL_S3": f"http://{cluster.gateway}:{BUCKET}"}
    bucket = s3.bucket().split("/")[2]
    for name in ("letter.png", "report.png", "handbook.pdf"):
        s3.client().upload_file(str(DATA / name), bucket, f"in/{name}")
    objects = copy.deepcopy(rendered("cpu, corpus"))
    found = one(objects, "RayCluster", "corpus")
    (group,) = found["spec"]["workerGroupSpecs"]
    group["rayStartParams"]["num-cpus"] = CORES
    cluster.objects = [*cluster.objects, one(objects, "ConfigMap", "corpus-settings"), kuberay.head_service(found)]
    for parser in cluster.of("parser"):  # the corpus needs none, and this machine's memory is small
        parser.remove()
    with stage("the head and nodes of the Ray cluster"):
        head = cluster.start("corpus-head", kuberay.head(found))
        cluster.wait_ready("corpus-head", READY_S)
        for _ in range(NODES):
            cluster.start("corpus-readers", kuberay.node(found, group))
        cluster.wait_ready("corpus-readers", READY_S)
    (container,) = head.containers.values()
    assert container.given["image"] == corpus_image
    # The guide's command (docs/corpus.md).
    words = ("python", "-m", "corpus", f"s3://{bucket}/in", "--out", f"s3://{bucket}/out", "--ray", "127.0.0.1:6379")
    with stage("parsing a bucket"):
        ran = project.docker("exec", container.name, *words, timeout=900)
    assert "3 of 3 documents done" in ran.stdout and f"{NODES} cores on" in ran.stdout, ran.stdout
    told = json.loads(s3.client().get_object(Bucket=bucket, Key="out/letter.png/letter.json")["Body"].read())
    (page,) = told["pages"]
    assert page["models"]["vlm"]["demo"] is True and "dear" in page["markdown"]["text"].lower()
