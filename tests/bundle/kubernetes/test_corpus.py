# SPDX-License-Identifier: Apache-2.0
"""The component corpus: a RayCluster of KubeRay whose pods have what the corpus tool needs, and may do no more."""

from __future__ import annotations

import re

import pytest

from tests.support.kubernetes import compose_service, one, pods, rendered
from tests.support.paths import ROOT

WITH = ("corpus", "cpu, all")
GUIDE = (ROOT / "docs/corpus.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WITH)
def test_the_version_of_ray_is_the_locks(name: str):
    lock = (ROOT / "config/requirements/corpus.txt").read_text()
    locked = re.search(r"^ray==(\S+)", lock, re.MULTILINE)
    assert locked and one(rendered(name), "RayCluster", "corpus")["spec"]["rayVersion"] == locked[1]


@pytest.mark.parametrize("name", WITH)
def test_pods_run_the_image_and_the_environment_of_compose(name: str):
    service = compose_service("corpus", "cpu")
    for group in ("corpus-head", "corpus-readers"):
        spec = pods(rendered(name))[group]
        (container,) = spec["containers"]
        assert container["image"] == service["image"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is service["read_only"] is True
        variables = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert variables["PARSER_CACHE_DIR"] == service["environment"]["PARSER_CACHE_DIR"]
        assert variables["VLM_URL"] == service["environment"]["VLM_URL"]
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert {"/models", "/var/lib/paddleocr-vl", "/tmp", "/run/paddleocr-vl", "/dev/shm"} == mounts


@pytest.mark.parametrize("name", WITH)
def test_a_readers_pod_has_the_cores_that_ray_counts(name: str):
    (group,) = one(rendered(name), "RayCluster", "corpus")["spec"]["workerGroupSpecs"]
    (container,) = group["template"]["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == group["rayStartParams"]["num-cpus"]


@pytest.mark.parametrize("name", WITH)
def test_secrets_are_those_that_the_guide_makes(name: str):
    for group in ("corpus-head", "corpus-readers"):
        (container,) = pods(rendered(name))[group]["containers"]
        named = {source["secretRef"]["name"] for source in container["envFrom"] if "secretRef" in source}
        named |= {e["valueFrom"]["secretKeyRef"]["name"] for e in container["env"] if "valueFrom" in e}
        assert named == {"corpus-ray", "corpus-bucket"}
        assert all(f"create secret generic {secret}" in GUIDE for secret in named)
