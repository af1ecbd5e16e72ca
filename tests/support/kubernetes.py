# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes as kubectl renders it, and compose.yaml's services as an engine gets them: plain mappings."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT, python_of

Facts = dict[str, Any]
FOLDER = ROOT / "deploy/kubernetes"
# Name of a rendering -> overlay and further components. `all` of a kind has every component that fits it.
RENDERINGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "cpu": ("cpu", ()),
    "ascend": ("ascend", ()),
    "ascend, driver mounts": ("ascend", ("driver-mounts",)),
    "ascend, all": ("ascend", ("cce", "monitoring", "keda")),
    "cpu, all": ("cpu", ("monitoring", "keda", "shared-queue", "corpus")),
    "cpu, shared queue": ("cpu", ("shared-queue",)),
    "ha": ("ha", ()),
    "cpu, corpus": ("cpu", ("corpus",)),
    "corpus": ("corpus", ()),
}
# A default may be another variable.
VARIABLE = re.compile(r"\$\{(\w+)(?::-((?:[^{}]|\$\{[^{}]*\})*))?\}")


def kubectl() -> str:
    """The program of the environment `tools`."""
    return str(python_of("tools").with_name("kubectl"))


def build(folder: Path) -> list[dict[str, Any]]:
    """The objects of a kustomization. Raises CalledProcessError with kubectl's words."""
    done = subprocess.run([kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{folder}: {done.stderr}"
    assert not done.stderr, f"{folder}: {done.stderr}"
    return [found for found in yaml.safe_load_all(done.stdout) if found]


@functools.cache
def rendered(name: str) -> list[dict[str, Any]]:
    """The objects of one of RENDERINGS; do not change them."""
    overlay, components = RENDERINGS[name]
    with tempfile.TemporaryDirectory() as folder:
        # Kustomize takes relative paths only.
        base = os.path.relpath(FOLDER, os.path.realpath(folder))
        content = {
            "namespace": "paddleocr-vl",
            "resources": [f"{base}/overlays/{overlay}"],
            "components": [f"{base}/components/{component}" for component in components],
        }
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(content))
        return build(Path(folder))


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The object of this kind and name; a generated ConfigMap's name may go on with a hash."""
    form = re.compile(rf"{name}(-[a-z0-9]{{10}})?" if kind == "ConfigMap" else name)
    found = [item for item in objects if item["kind"] == kind and form.fullmatch(item["metadata"]["name"])]
    assert len(found) == 1, f"{kind} {name}: {len(found)} objects"
    return found[0]


def templates(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Name of a Deployment or Job -> the template of its pods. Of a RayCluster the name and the group's."""
    found = {
        item["metadata"]["name"]: item["spec"]["template"] for item in objects if item["kind"] in ("Deployment", "Job")
    }
    for item in objects:
        if item["kind"] == "RayCluster":
            found[f"{item['metadata']['name']}-head"] = item["spec"]["headGroupSpec"]["template"]
            for group in item["spec"]["workerGroupSpecs"]:
                found[f"{item['metadata']['name']}-{group['groupName']}"] = group["template"]
    return found


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same names -> the spec of their pods."""
    return {name: template["spec"] for name, template in templates(objects).items()}


def containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (*spec.get("initContainers", ()), *spec["containers"])


def environment(
    objects: list[dict[str, Any]],
    container: dict[str, Any],
    namespace: str,
    secrets: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """What the kubelet gives to the container: its ConfigMaps and Secrets, then its own variables, with the references
    in them. Without ``secrets`` (the texts by Secret and key) those are left out: they are the site's."""
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "secretRef" in source:
            found |= (secrets or {}).get(source["secretRef"]["name"], {})
            continue
        name = source["configMapRef"]["name"]
        data = next(
            item.get("data", {}) for item in objects if item["kind"] == "ConfigMap" and item["metadata"]["name"] == name
        )
        found |= data
    own: dict[str, str] = {}
    for entry in container.get("env", ()):
        if wanted := entry.get("valueFrom", {}).get("secretKeyRef"):
            if secrets is not None:
                own[entry["name"]] = secrets[wanted["name"]][wanted["key"]]
        elif "valueFrom" in entry:
            assert entry["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
            own[entry["name"]] = namespace
        else:
            # References see the variables before them only, and none of ConfigMaps.
            own[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda match: own[match[1]], entry["value"])
    return found | own


def compose_service(name: str, hardware: str = "", **settings: str) -> dict[str, Any]:
    """A service of compose.yaml with what it extends, as it is for this hardware with no further setting made, or with
    these."""
    settings = {"HARDWARE": hardware, **settings}

    def load(path: Path, service: str) -> dict[str, Any]:
        text = path.read_text()
        for _ in range(2):
            text = VARIABLE.sub(lambda match: settings.get(match[1], match[2] or ""), text)
        found: dict[str, Any] = yaml.safe_load(text)["services"][service]
        for key, text in (contexts := found.get("build", {}).get("additional_contexts", {})).items():
            if text.startswith("."):
                contexts[key] = str((path.parent / text).resolve())
        extended = found.pop("extends", None)
        if not extended:
            return found
        below = load((path.parent / extended["file"]).resolve(), extended["service"])
        merged = below | found
        for key in ("environment", "volumes", "devices", "tmpfs", "build"):
            both = [each[key] for each in (below, found) if key in each]
            if len(both) == 2:
                merged[key] = both[0] + both[1] if isinstance(both[0], list) else both[0] | both[1]
        if "build" in below and "build" in found:
            for key in ("args", "additional_contexts"):
                merged["build"][key] = below["build"].get(key, {}) | found["build"].get(key, {})
        return merged

    return load(ROOT / "compose.yaml", name)
