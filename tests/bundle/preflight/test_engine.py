# SPDX-License-Identifier: Apache-2.0
"""Docker, Compose, the builder, images, disks and the unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bundle.compose import images, project
from bundle.preflight import engine
from tests.bundle.preflight.node import Node, by_check
from tests.support.paths import ROOT


def info(root: str, socket: str = "", *, containerd: bool = False) -> str:
    """What `docker info` says of where it keeps images."""
    kept = ["driver-type", "io.containerd.snapshotter.v1"] if containerd else ["Backing Filesystem", "extfs"]
    return json.dumps({"DockerRootDir": root, "DriverStatus": [kept], "Containerd": {"Address": socket}})


SYSTEMS, OWN = "/run/containerd/containerd.sock", "/var/run/docker/containerd/containerd.sock"


SETTINGS = """version = 3
#root = "/comment"
root = '/data/containerd'
[plugins."io.containerd.snapshotter.v1.overlayfs"]
root = "/elsewhere"
"""


@pytest.mark.parametrize(
    ("told", "settings", "root", "remedy"),
    [
        # Without an answer where Docker has it by default.
        (None, "", "/var/lib/docker", "move Docker's data-root"),
        (info("/data/docker", SYSTEMS), SETTINGS, "/data/docker", "move Docker's data-root"),
        # A new Docker 29; also where the system's containerd was moved, or Docker has started its own.
        (
            info("/data/docker", SYSTEMS, containerd=True),
            "",
            "/var/lib/containerd",
            "root in /etc/containerd/config.toml",
        ),
        (info("/data/docker", SYSTEMS, containerd=True), SETTINGS, "/data/containerd", "move containerd's root"),
        (info("/data/docker", OWN, containerd=True), SETTINGS, "/data/docker", "move Docker's data-root"),
    ],
)
@pytest.mark.parametrize("hardware", ["ascend", "cpu"])
def test_the_disk_of_the_engine_holds_the_images(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hardware: str,
    told: str | None,
    settings: str,
    root: str,
    remedy: str,
):
    """It is the engine's, wherever that is."""
    node = Node(tmp_path, "a3")
    node.values = {**node.values, "HARDWARE": hardware}
    node.put("/etc/containerd/config.toml", settings)
    monkeypatch.setitem(node.answers, ("docker", "info"), told)
    for missing, level in ((0, "PASS"), (1, "WARN")):
        free = {root: (engine.DISK[hardware] << 30) - missing}
        monkeypatch.setattr(node, "free_disk", lambda path, free=free: free.get(str(path), 0))
        (found,) = (finding for finding in engine.check_engine(node) if finding.check == "disk")
        assert found.level == level and f"GiB free in {root}" in found.found
        assert level == "PASS" or remedy in found.remedy


@pytest.mark.parametrize(
    ("option", "hardware", "label", "level", "words"),
    [
        ("name=rootless", "ascend", "", "FAIL", "Docker runs rootless"),
        ("name=userns", "ascend", "", "FAIL", "userns-remap"),
        # Without dies nothing belongs to a group of the node.
        ("name=rootless", "cpu", "", None, ""),
        ("name=selinux", "cpu", "unconfined_u:object_r:user_home_t:s0\n", "WARN", "may not read"),
        ("name=selinux", "ascend", "?\n", "WARN", "may not read"),
        ("name=selinux", "cpu", "system_u:object_r:container_file_t:s0\n", None, ""),
        ("name=seccomp,profile=builtin", "ascend", "", None, ""),
    ],
)
def test_an_engine_whose_containers_may_not_open_what_they_get(
    tmp_path: Path, option: str, hardware: str, label: str, level: str | None, words: str
):
    node = Node(tmp_path, "a3", HARDWARE=hardware)
    node.answers["docker", "info"] = json.dumps(
        {"DockerRootDir": "/data", "SecurityOptions": ["name=cgroupns", option]}
    )
    node.answers["stat", "--format"] = label
    found = by_check(node).get("security")
    assert (found and found.level) == level
    assert found is None or (words in found.found and found.needed)
    dies = "container_use_devices" in found.remedy if found else False
    assert dies == ("selinux" in option and hardware == "ascend")


def test_jobs_lie_on_dockers_own_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where containerd has the images on another one."""
    node = Node(tmp_path, "a3")
    node.answers["docker", "info"] = info("/small", SYSTEMS, containerd=True)
    sizes = {"/small": 49 << 30, "/var/lib/containerd": 60 << 30}
    monkeypatch.setattr(node, "free_disk", lambda path: sizes.get(str(path), 200 << 30))
    found = by_check(node)
    assert found["disk"].level == "PASS" and found["disk of jobs"].level == "WARN"
    assert found["disk of jobs"].found == "49 GiB free in /small"
    node.values = {**node.values, "PARSER_JOB_KEEP_GIB": "49"}
    assert by_check(node)["disk of jobs"].level == "PASS"
    monkeypatch.setattr(node, "same_disk", lambda one, other: True)
    assert "disk of jobs" not in by_check(node)


BUILDX = "github.com/docker/buildx {} 24e4d6f"


@pytest.mark.parametrize(
    ("compose", "buildx", "values", "level", "words"),
    [
        # BuildKit of the engine is enough, also for the last Compose 2 where there is no buildx.
        ("2.39.4", None, {}, None, ""),
        ("2.40.3", None, {}, None, ""),
        ("2.40.3", "v0.16.2", {}, "FAIL", "buildx 0.16.2"),
        ("5.0.1", None, {}, "FAIL", "buildx is missing"),
        ("5.0.1", "0.13.1+ds1", {}, "FAIL", "buildx 0.13.1"),
        ("5.0.1", "v0.17.0", {}, "PASS", "buildx 0.17.0"),
        ("5.0.1", "v0.30.1", {"BUILD_NETWORK": "host"}, "PASS", "buildx 0.30.1"),
        # What these ask for, Compose does not pass on.
        ("5.0.1", "v0.20.1", {}, "WARN", "files outside this folder"),
        ("5.0.1", "v0.19.3", {"BUILD_NETWORK": "host"}, "WARN", "BUILD_NETWORK=host"),
    ],
)
def test_the_builder_of_newer_composes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compose: str,
    buildx: str | None,
    values: dict[str, str],
    level: str | None,
    words: str,
):
    """In a checkout, and in an archive that carries what a build needs. One that carries the images, and a machine that
    has them, build nothing."""
    monkeypatch.setattr(engine, "ROOT", tmp_path)
    node = Node(tmp_path, "a3", **values)
    node.answers["docker", "compose"] = f"{compose}\n"
    if buildx:
        node.answers["docker", "buildx"] = BUILDX.format(buildx)
    assert list(engine.check_buildx(node)) == []
    del node.answers["docker", "image"]
    for archive in (None, {"builds": True}, {"builds": False}):
        if archive:
            (tmp_path / "offline.json").write_text(json.dumps(archive))
        found = list(engine.check_buildx(node))
        assert [one.level for one in found] == ([level] if level and archive != {"builds": False} else [])
        assert all(words in one.found for one in found)
        assert all("docker-buildx-plugin" in one.remedy and one.needed for one in found if level != "PASS")


def test_an_image_of_another_product_is_named(tmp_path: Path):
    found = by_check(Node(tmp_path, "a2", ATLAS="a2"))["image"]
    assert found.level == "FAIL" and found.found == f"{images.vlm('a2', '0.11.1')} was built for ascend910_9391"


def test_a_unit_that_starts_another_folder_at_boot(tmp_path: Path):
    """After an upgrade by an archive, or a rollback: at the next boot it would make the containers of that folder."""
    unit = (ROOT / "config/systemd/paddleocr-vl.service").read_text()
    node = Node(tmp_path, "a3")
    (tmp_path / "opt/paddleocr-vl").mkdir(parents=True)
    node.put(project.UNIT, unit)
    (found,) = engine.check_boot(node)
    assert (found.level, found.found) == ("WARN", f"{project.UNIT} starts the bundle in /opt/paddleocr-vl")
    assert found.remedy.startswith(f"WorkingDirectory={ROOT} in it, then systemctl daemon-reload")
    node.put(project.UNIT, unit.replace("/opt/paddleocr-vl", str(ROOT)))
    assert [one.level for one in engine.check_boot(node)] == ["PASS"]
    # A bundle of another name is started there, beside this one.
    (tmp_path / ".env").write_text("COMPOSE_PROJECT_NAME=other\n")
    node.put(project.UNIT, unit.replace("/opt/paddleocr-vl", str(tmp_path)))
    assert not list(engine.check_boot(node))


def test_a_second_bundle_of_the_same_name_is_named(tmp_path: Path):
    """`docker compose up` in another folder replaces the containers: an upgrade, or somebody else's service."""
    node = Node(tmp_path, "a3", COMPOSE_PROJECT_NAME="mine")
    node.answers["docker", "ps"] = f"{ROOT}\n{ROOT}\n"
    assert "folder" not in by_check(node)
    assert any("label=com.docker.compose.project=mine" in words for words in node.calls)
    node.answers["docker", "ps"] = f"/opt/first\n{ROOT}\n/opt/first\n"
    found = by_check(node)["folder"]
    assert (found.level, found.found) == ("WARN", "containers of this node were made in /opt/first")
    assert found.needed == f"one bundle a node: docker compose up in {ROOT} replaces them"
