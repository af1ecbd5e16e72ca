# SPDX-License-Identifier: Apache-2.0
"""kubectl renders every overlay and component, and the schemas of three versions of Kubernetes accept the objects."""

from __future__ import annotations

import copy
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from bundle.compose import images as images_of
from tests.support.docs import all_blocks
from tests.support.kubernetes import FOLDER, RENDERINGS, build, containers, one, pods, rendered, templates
from tests.support.paths import ROOT

# The oldest that docs/kubernetes.md names, one between, and the newest that kubernetes-validate has.
VERSIONS = ("1.27", "1.32", "1.37")
GUIDE = "".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("kubernetes", "corpus"))
# Of others' controllers, which bring their own schemas.
CUSTOM = {"ServiceMonitor", "PodMonitor", "PrometheusRule", "ScaledObject", "RayCluster"}


@pytest.fixture(scope="module", autouse=True)
def schemas_read_once() -> Iterator[None]:
    """For each object the library reads the list of its versions and all definitions of one again."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("schema_contents", "all_versions"):
            patch.setattr(kubernetes_validate.utils, name, functools.cache(getattr(kubernetes_validate.utils, name)))
        yield


def test_every_overlay_and_component_is_rendered():
    overlays, components = zip(*RENDERINGS.values(), strict=True)
    assert {path.name for path in (FOLDER / "overlays").iterdir()} == set(overlays)
    named = {name for names in components for name in names}
    in_overlays = {"fetch-models", "corpus"}
    assert {path.name for path in (FOLDER / "components").iterdir()} == named | in_overlays


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", RENDERINGS)
def test_the_schemas_accept_every_object(name: str, version: str):
    objects = rendered(name)
    assert CUSTOM.isdisjoint(item["kind"] for item in objects) or "all" in name or "corpus" in name
    for item in objects:
        if item["kind"] not in CUSTOM:
            kubernetes_validate.validate(item, version, strict=True)
    # Also of those that others' controllers make.
    for pod, template in templates(objects).items():
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": template["spec"]}
        kubernetes_validate.validate(made, version, strict=True)


def test_the_schemas_would_refuse_a_wrong_field():
    wrong = copy.deepcopy(one(rendered("cpu"), "Deployment", "vlm"))
    wrong["spec"]["template"]["spec"]["terminationGracePeriod"] = 60
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("name", RENDERINGS)
def test_every_name_leads_to_an_object(name: str):
    """Accounts, ConfigMaps and claims that pods name are there; services, budgets and policies find pods."""
    objects = rendered(name)
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    assert {item["metadata"].get("namespace", "paddleocr-vl") for item in objects} == {"paddleocr-vl"}
    labels = [template["metadata"]["labels"] for template in templates(objects).values()]
    for spec in pods(objects).values():
        assert ("ServiceAccount", spec["serviceAccountName"]) in names
        for volume in spec["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in names
        mounted = {mount["name"] for container in containers(spec) for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
        for container in containers(spec):
            assert container["image"].count(":") == 1, "an overlay names the image's tag"
            for source in container.get("envFrom", ()):
                if "secretRef" in source:  # made by hand
                    assert f"create secret generic {source['secretRef']['name']}" in GUIDE
                else:
                    assert ("ConfigMap", source["configMapRef"]["name"]) in names
    for item in objects:
        spec = item.get("spec", {})
        selector = (
            spec.get("selector") if item["kind"] == "Service" else (spec.get("selector") or {}).get("matchLabels")
        )
        if item["kind"] in ("Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"):
            wanted = selector or (spec.get("podSelector") or {}).get("matchLabels") or {}
            assert any(wanted.items() <= found.items() for found in labels), item["metadata"]["name"]


def test_the_dies_are_named_as_the_cluster_names_them():
    def dies(name: str) -> list[dict[str, str]]:
        resources = pods(rendered(name))["vlm"]["containers"][0]["resources"]
        return [{key: value for key, value in resources[part].items() if "/" in key} for part in ("requests", "limits")]

    assert dies("ascend") == [{"huawei.com/Ascend910": "1"}] * 2, "a device's requests equal its limits"
    assert dies("ascend, all") == [{"huawei.com/ascend-1980": "1"}] * 2
    assert dies("cpu") == [{}] * 2


@pytest.mark.parametrize("name", RENDERINGS)
def test_no_budget_waits_for_a_die(name: str):
    """The successor of an evicted pod finds none free, and a budget would forbid every further eviction of a drain."""
    objects = rendered(name)
    held = {item["metadata"]["name"] for item in objects if item["kind"] == "PodDisruptionBudget"}
    resources = pods(objects)["vlm"]["containers"][0]["resources"]["requests"]
    assert ("vlm" in held) != any("/" in key for key in resources) and "balancer" in held


def test_the_number_of_pods_is_left_to_the_one_that_changes_it():
    assert "replicas" in one(rendered("cpu"), "Deployment", "vlm")["spec"]
    assert "replicas" not in one(rendered("cpu, all"), "Deployment", "vlm")["spec"]
    scaled = one(rendered("cpu, all"), "ScaledObject", "vlm")["spec"]
    settings = one(rendered("cpu, all"), "ConfigMap", "balancer-settings")["data"]
    assert scaled["maxReplicaCount"] <= int(settings["VLM_MOST_PODS"])
    assert 0 < int(scaled["triggers"][0]["metadata"]["threshold"]) <= int(settings["VLM_MAX_NUM_SEQS"])
    assert "fallback" not in scaled, "an absent Prometheus would end most pods of a busy service"


@pytest.mark.parametrize("hardware", ["cpu", "ascend"])
def test_the_balancer_knows_what_a_pod_computes_at_once(hardware: str):
    arguments = yaml.safe_load((ROOT / "config/models.yaml").read_text())["hardware"][hardware]["arguments"]
    settings = one(rendered(hardware), "ConfigMap", "balancer-settings")["data"]
    assert int(settings["VLM_MAX_NUM_SEQS"]) == arguments["max-num-seqs"]
    assert one(rendered(hardware), "Deployment", "vlm")["spec"]["replicas"] <= int(settings["VLM_MOST_PODS"])


def test_the_guides_kustomization_is_rendered(tmp_path: Path):
    """The files that docs/kubernetes.md shows, with the resources where they are: the site's kustomization with its
    further patches, and its policies."""
    guide = ROOT / "docs/kubernetes.md"
    site, patches, policies = (block.text for block in all_blocks(guide) if block.language == "yaml")
    text = re.sub(r"(?<=[ \[])\.\./", f"{os.path.relpath(FOLDER, os.path.realpath(tmp_path))}/", site)
    text = text.replace("resources: [", "resources: [network.yaml, ") + patches
    (tmp_path / "kustomization.yaml").write_text(text)
    (tmp_path / "network.yaml").write_text(policies)
    objects = build(tmp_path)
    images = {c["image"] for spec in pods(objects).values() for c in containers(spec)}
    assert all(image.startswith("registry.example.org/") for image in images)
    assert {spec["nodeSelector"]["kubernetes.io/arch"] for spec in pods(objects).values()} == {"arm64"}
    accounts = [item for item in objects if item["kind"] == "ServiceAccount"]
    assert len(accounts) > 3 and all(item["imagePullSecrets"] == [{"name": "registry"}] for item in accounts)
    watched = [item for item in objects if item["apiVersion"].startswith("monitoring.coreos.com/")]
    assert {item["kind"] for item in watched} == {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    assert all(item["metadata"]["labels"]["release"] == "kube-prometheus-stack" for item in watched)
    for name in ("parser-outbound", "names"):
        kubernetes_validate.validate(one(objects, "NetworkPolicy", name), VERSIONS[-1], strict=True)


def test_the_guides_words_for_a2_name_an_image_of_compose(tmp_path: Path):
    guide = (ROOT / "docs/kubernetes.md").read_text()
    [image] = re.findall(r"`(paddleocr-vl/vlm-a2:\S+)`", guide)
    assert image == images_of.vlm("a2", "0.11.1")
    site = next(block.text for block in all_blocks(ROOT / "docs/kubernetes.md") if block.language == "yaml")
    text = re.sub(r"(?<=[ \[])\.\./", f"{os.path.relpath(FOLDER, os.path.realpath(tmp_path))}/", site)
    named = "newName: registry.example.org/{}, newTag: {}".format(*image.split(":"))
    text = text.replace("newName: registry.example.org/paddleocr-vl/vlm-a3", named)
    (tmp_path / "kustomization.yaml").write_text(text)
    (container,) = pods(build(tmp_path))["vlm"]["containers"]
    assert container["image"] == f"registry.example.org/{image}"


def test_secrets_of_callbacks_lie_beside_the_keys():
    (container,) = pods(rendered("cpu"))["parser"]["containers"]
    folder = next(mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "keys")
    guide = (ROOT / "docs/kubernetes.md").read_text()
    assert f"`{folder}/callback_secrets`" in guide and "--from-file=callback_secrets" in guide
