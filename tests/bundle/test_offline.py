# SPDX-License-Identifier: Apache-2.0
"""The offline archive beside an older one: its folder, what it takes over, what a broken one leaves. The images and the
engine are in tests/images/cpu/test_offline.py."""

from __future__ import annotations

import contextlib
import errno
import json
import re
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from bundle import envfile, origin
from bundle.offline import __main__ as offline
from bundle.offline import contents, load, save, takeover, to_build
from bundle.offline import engine as engine_module
from bundle_version import VERSION
from served_weights.manifest import digest
from tests.support.paths import ROOT
from tool_errors import EnvironmentSetupError, ToolError, UsageError

SETTINGS = {"HARDWARE": "cpu", "STACK": "0.23.0"}
FILES = ("compose.yaml", ".env.example", "config/compose/dies/0-15.yaml", "models/README.md")


def make_folder(home: Path, version: str) -> Path:
    """A folder as an archive unpacks to, with a few of its files."""
    folder = home / f"paddleocr-vl-{version}"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    files = {name: digest(folder / name) for name in FILES}
    (folder / contents.MANIFEST).write_text(json.dumps({"settings": SETTINGS, "layers": {}, "files": files}))
    return folder


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A folder in use, with settings, chosen dies and weights, and a new one."""
    for name in ("MODELS_DIR", "HARDWARE", "STACK"):
        monkeypatch.delenv(name, raising=False)
    old, new = make_folder(tmp_path, "0.1.0"), make_folder(tmp_path, "0.2.0")
    (old / ".env").write_text("HARDWARE=cpu\nNPU_IDS=2,5\nMODELS_DIR=./models\n")
    (old / "compose.override.yaml").write_text("services: {}\n")
    (old / "config/compose/dies/2,5.yaml").write_text("# chosen\n")
    (old / "config/compose/dies/0-15.yaml").write_text("# what the older version had\n")
    (old / "models/PaddleOCR-VL").mkdir()
    (old / "models/PaddleOCR-VL/model.safetensors").write_bytes(b"weights")
    return old, new


def test_the_folder_carries_the_version():
    assert origin.NAME == f"paddleocr-vl-{VERSION}"


def test_what_git_ignores_stays_behind():
    """A site's own files: keys for its cluster, dies that it chose."""
    for name in ("deploy/kubernetes/site/api_keys", "config/compose/dies/2,5.yaml"):
        answer = subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False)
        assert answer.returncode == 0, name
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    untracked = "git", "ls-files", "-o", "--exclude-standard"
    new = subprocess.run(untracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {str(path.relative_to(ROOT)) for path in contents.tree_files()} <= {*tracked.splitlines(), *new.splitlines()}


def test_a_sites_files_stay_behind_without_git_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An unpacked archive has a list. A checkout whose git does not answer is not packed: its owner is another user, or
    git is missing."""
    folder = make_folder(tmp_path, "0.2.0")
    for name in ("deploy/kubernetes/site/api_keys", "config/compose/dies/2,5.yaml", "images.tar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    monkeypatch.setattr(contents, "ROOT", folder)
    manifest = json.loads((folder / contents.MANIFEST).read_text())
    listed = {**manifest["files"], "images.tar": "", "scripts/test.sh": "", "docs/gone.md": ""}
    (folder / contents.MANIFEST).write_text(json.dumps({**manifest, "files": listed}))
    assert {str(path.relative_to(folder)) for path in contents.tree_files()} == {*FILES}
    (folder / contents.MANIFEST).unlink()
    assert not [path for path in contents.tree_files() if "site" in path.parts]
    (folder / ".git").mkdir()
    with pytest.raises(UsageError, match="nothing was packed: fatal: not a git repository"):
        contents.tree_files()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="nothing was packed: git: No such file"):
        contents.tree_files()


def test_a_new_folder_takes_over_settings_dies_and_weights(folders: tuple[Path, Path]):
    old, new = folders
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    takeover.take_over(old, new, FILES)
    assert (new / ".env").read_text() == (old / ".env").read_text()
    assert (new / "compose.override.yaml").is_file() and (new / "config/compose/dies/2,5.yaml").is_file()
    assert (new / "config/compose/dies/0-15.yaml").read_bytes() == (ROOT / FILES[2]).read_bytes(), "its own version's"
    weights = [folder / "models/PaddleOCR-VL/model.safetensors" for folder in folders]
    assert weights[0].samefile(weights[1]), "on the disk once"
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before
    takeover.take_over(old, new, FILES)  # a second time, after a failure, changes nothing


@pytest.mark.parametrize("named", ["/h/weights", "~/weights"])
def test_weights_elsewhere_stay_there(folders: tuple[Path, Path], monkeypatch, capsys, named: str):
    old, new = folders
    monkeypatch.setenv("HOME", "/h")
    (old / ".env").write_text(f"MODELS_DIR={named}\n")
    takeover.take_over(old, new, FILES)
    assert not (new / "models/PaddleOCR-VL").exists() and "weights stay in /h/weights" in capsys.readouterr().err


def test_settings_that_differ_are_not_overwritten(folders: tuple[Path, Path]):
    old, new = folders
    (new / ".env").write_text("HARDWARE=ascend\n")
    with pytest.raises(UsageError, match=r"\.env is there and differs"):
        takeover.take_over(old, new, FILES)
    assert (new / ".env").read_text() == "HARDWARE=ascend\n"
    assert not (new / "models/PaddleOCR-VL").exists() and not (new / "compose.override.yaml").exists()


def test_only_another_folder_of_the_bundle_is_taken_over(folders: tuple[Path, Path], tmp_path: Path):
    for wrong in (folders[1], tmp_path / "absent"):
        with pytest.raises(UsageError, match="expected another folder of this bundle"):
            takeover.take_over(wrong, folders[1], FILES)


def test_without_settings_they_are_made_for_the_archives_images(folders: tuple[Path, Path]):
    _, new = folders
    takeover.begin(new, SETTINGS)
    values = envfile.parse((new / ".env").read_text(), {})
    example = envfile.parse((ROOT / ".env.example").read_text(), {})
    assert values == {**example, **SETTINGS}
    assert (new / ".env").read_text().startswith("# The settings that most sites look at, with their defaults; ")
    (new / ".env").write_text("STACK=0.11.1\n")
    takeover.begin(new, SETTINGS)
    assert (new / ".env").read_text() == "STACK=0.11.1\n"


def test_settings_are_made_whole_or_not_at_all(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch):
    def full(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    _, new = folders
    before = sorted(new.iterdir())
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        takeover.begin(new, SETTINGS)
    assert sorted(new.iterdir()) == before


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of a new version; the current folder is an empty one, beside which nothing lies."""
    folder = make_folder(tmp_path / "made", "0.3.0")
    path = tmp_path / "bundle.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(folder, folder.name)
    (tmp_path / "node").mkdir()
    monkeypatch.chdir(tmp_path / "node")
    return path


def test_settings_that_the_archive_was_not_made_for():
    """A taken-over .env without STACK or ATLAS means the defaults, whose images are not in every archive."""
    made_for = {"HARDWARE": "ascend", "ATLAS": "a2", "STACK": "0.23.0", "VLM_MODEL": "HunyuanOCR"}
    assert load.unlike({"STACK": "0.23.0"}, made_for) == ["ATLAS is a3, but the archive is for a2"]
    assert load.unlike({}, made_for)[1] == "STACK is 0.11.1, but the archive is for 0.23.0"
    assert load.unlike(made_for, made_for) == []


def test_an_archive_gets_its_folder_when_all_of_it_is_right(archive: Path):
    folder = load.unpack_here(archive)
    assert folder.name == "paddleocr-vl-0.3.0" and load.read_checked(folder)["settings"] == SETTINGS
    assert list(Path.cwd().iterdir()) == [folder]
    with pytest.raises(UsageError, match="is there already"):
        load.unpack_here(archive)


def test_the_folder_in_use_unpacks_a_new_one_beside_itself(
    archive: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The guide's command; the engine is left out. Inside the folder the command is told."""
    old, engine = folders[0], Mock(return_value=0)
    monkeypatch.setattr(offline, "ROOT", old)
    monkeypatch.setattr(offline.shutil, "which", lambda _: "/usr/bin/docker")
    monkeypatch.setattr(offline, "load", engine)
    for inside in (old, old / "models"):
        monkeypatch.chdir(inside)
        assert offline.main(["load", str(archive), "--from", str(old)]) == 2
    said = f"cd {old.parent}, then {old.name}/scripts/offline_bundle.sh load {archive} --from {old.name}"
    assert said in capsys.readouterr().err
    monkeypatch.chdir(old.parent)
    (command,) = re.findall(r"BEFORE/scripts/offline_bundle.sh (load [^`]+)`", (ROOT / "docs/install.md").read_text())
    command = " ".join(command.split()).replace(" --signers SIGNERS", "").replace("paddleocr-vl-BEFORE", old.name)
    assert offline.main(command.replace("paddleocr-vl.tar", archive.name).split()) == 0
    (made,) = old.parent.glob("*-0.3.0")
    engine.assert_called_once_with(made, old, checked=True)


def test_a_damaged_archive_leaves_nothing(archive: Path):
    whole = archive.read_bytes()
    at = whole.index(b"services:")
    for broken in (whole[:at] + b"sErvices:" + whole[at + 9 :], whole[: len(whole) // 2]):
        archive.write_bytes(broken)
        with pytest.raises(UsageError, match="copy"):
            load.unpack_here(archive)
        assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize(
    ("images", "refused"),
    [
        ({"layers": {"debian:bookworm-slim": "as saved"}}, False),
        ({"layers": {"debian:bookworm-slim": "of another"}}, True),
        # Of an archive before this: the id that the engine gave it where it was saved.
        ({"images": {"debian:bookworm-slim": "sha256:elsewhere"}}, False),
    ],
)
def test_a_loaded_image_is_known_by_its_layers(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, images: dict[str, dict[str, str]], refused: bool
):
    """Docker's own store and containerd's give one image two ids."""
    _, new = folders
    (script := new / "scripts/preflight.sh").parent.mkdir()
    script.write_text("#!/bin/sh\nexit 7\n")
    script.chmod(0o755)
    same = {"as saved": sha256sum(layers_of("amd64")), "of another": sha256sum(layers_of("arm64"))}
    said = {key: {image: same.get(one, one) for image, one in named.items()} for key, named in images.items()}
    (new / contents.MANIFEST).write_text(json.dumps({"settings": SETTINGS, "files": {}, **said}))
    engine = Engine(new, "0")
    for module in (load, engine_module):
        monkeypatch.setattr(module, "docker", engine.docker)
    if refused:
        with pytest.raises(EnvironmentSetupError, match="is not the image that was saved"):
            load.load(new, None)
    else:
        assert load.load(new, None) == 7, "the status of preflight.sh"


class Engine:
    """A simulated container engine, as far as base images go: name -> (id, processor). With `containerd` a name has
    images of several processors, and one id; without, the engine knows no `--platform` of images that are there."""

    def __init__(self, folder: Path, commit: str, *, containerd: bool = False) -> None:
        self.containerd = containerd
        self.images = {"debian:bookworm-slim": ("sha256:here", "amd64")}
        self.elsewhere = {"arm64": "sha256:there"}
        self.in_no_registry = ""
        sources = {"vllm_ascend": f"{folder}#{commit}", "catlass": str(ROOT / "config/empty")}
        self.builds = {
            "parser": {"args": {"BASE_IMAGE": "debian:bookworm-slim", "BASE_DIGEST": ""}},
            "vlm": {
                "args": {
                    "CANN_IMAGE": "cann:8.3",
                    "CANN_DIGEST": "sha256:pinned",
                    "VLM_ENVIRONMENT": "vlm-ascend",
                    "VLLM_ASCEND_IMAGE": "compiled:v1",
                },
                "additional_contexts": sources,
            },
        }

    def of_processor(self, words: tuple[str, ...], images: tuple[str, ...]) -> str:
        """The processor whose image is meant."""
        if not self.containerd and "--platform" in words:
            raise EnvironmentSetupError("docker: unknown flag: --platform")
        meant = words[words.index("--platform") + 1].removeprefix("linux/") if "--platform" in words else ""
        if not all(meant in self.images[image][1].split() for image in images if meant):
            raise EnvironmentSetupError("docker: found but does not provide the specified platform")
        return meant or ("amd64" if self.containerd else self.images[images[0]][1])

    def docker(self, *words: str, **settings: str) -> str:
        verb, image = " ".join(words[:2]) if words[0] in ("image", "compose") else words[0], words[-1]
        if verb == "compose config":
            return json.dumps({"services": {name: {"build": build} for name, build in self.builds.items()}})
        if verb == "pull" and image == self.in_no_registry:
            raise EnvironmentSetupError("docker pull: pull access denied")
        if verb == "pull":
            processor = words[2].removeprefix("linux/")
            self.images[image] = (self.elsewhere.get(processor, "sha256:here"), processor)
            if self.containerd:
                self.images[image] = ("sha256:here", f"amd64 {processor}")
        elif verb == "tag":
            known = {identity: processor for identity, processor in self.images.values()}
            self.images[image] = self.images.get(words[1]) or (words[1], known.get(words[1], "amd64"))
        elif verb == "image ls":
            return self.images[image][0] if image in self.images else ""
        elif verb == "image inspect":
            processor = self.of_processor(words, (image,))
            said = {"{{.Architecture}}": processor, "{{json .RootFS.Layers}}": layers_of(processor)}
            said["{{.Size}}"] = "5"
            return said[words[words.index("--format") + 1]]
        elif verb == "info":
            return json.dumps([["driver-type", "io.containerd.snapshotter.v1"]] if self.containerd else [["a", "b"]])
        elif verb == "save":
            at = words.index("--output") + 1
            Path(words[at]).write_text(self.of_processor(words, words[at + 1 :]))
        return ""


def layers_of(processor: str) -> str:
    return json.dumps([f"sha256:{processor}", "sha256:above"], separators=(",", ":"))


def sha256sum(said: str) -> str:
    """What the program says of a line."""
    done = subprocess.run(["sha256sum"], input=f"{said}\n", capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def test_without_hardware_the_archive_is_of_what_compose_builds(monkeypatch: pytest.MonkeyPatch):
    """A machine that builds for Atlas nodes has no NPU: compose builds for Ascend there, and so the archive is."""
    asked: list[dict[str, str]] = []

    def docker(*words: str, **settings: str) -> str:
        asked.append(settings)
        return '{"services": {}}'

    for module in (engine_module, to_build):
        monkeypatch.setattr(module, "docker", docker)
        monkeypatch.setattr(module, "VALUES", {})
    monkeypatch.setattr(save, "VALUES", {})
    engine_module.images()
    to_build.builds(corpus=False)
    assert asked == [{"HARDWARE": "ascend"}] * 2
    assert save.made_for(weights=True) == {"HARDWARE": "ascend", "STACK": "0.11.1", "ATLAS": "a3"}


def test_the_weights_that_travel_are_those_that_the_node_serves(monkeypatch: pytest.MonkeyPatch):
    """Unset, VLM_MODEL means a PaddleOCR-VL, which is not there."""
    monkeypatch.setattr(save, "VALUES", {"HARDWARE": "cpu", "STACK": "0.23.0", "VLM_MODEL": "HunyuanOCR"})
    assert save.made_for(weights=False) == SETTINGS
    assert save.made_for(weights=True) == {**SETTINGS, "VLM_MODEL": "HunyuanOCR"}


@pytest.mark.parametrize("containerd", [False, True])
def test_an_image_that_was_built_here_needs_no_registry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, containerd: bool
):
    """VLLM_ASCEND_IMAGE, as docs/install.md makes it. One for the other processor is no help."""
    engine = Engine(tmp_path, "0", containerd=containerd)
    engine.in_no_registry = "compiled:v1"
    for module in (to_build, engine_module):
        monkeypatch.setattr(module, "docker", engine.docker)
    for processor in ("amd64", "arm64"):
        engine.images["compiled:v1"] = ("sha256:built", processor)
        with contextlib.ExitStack() as stack:
            if processor == "amd64":
                stack.enter_context(pytest.raises(EnvironmentSetupError, match="pull access denied"))
            assert stack.enter_context(to_build.pulled({"compiled:v1": "compiled:v1"}, "aarch64")) == ["compiled:v1"]
        assert engine.images["compiled:v1"] == ("sha256:built", processor)


@pytest.mark.parametrize("writable", [True, False])
def test_the_carried_compose_is_for_everyone_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], writable: bool
):
    """The boot unit is root's, and looks into no user's home."""
    (program := tmp_path / "docker").write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    everyones, own = tmp_path / "lib", tmp_path / "home"
    if not writable:
        everyones.write_text("nobody makes a folder here")
    monkeypatch.setattr(engine_module, "PLUGIN_FOLDERS", (str(everyones / "a"), str(own / "a")))
    (carried := tmp_path / "carried").write_text("plugin")
    engine_module.install_plugin(carried)
    installed, said = (everyones if writable else own) / "a" / contents.PLUGIN, capsys.readouterr()
    assert installed.read_text() == "plugin" and installed.stat().st_mode & 0o777 == 0o755
    assert ("sudo install" in said.out + said.err) == (not writable) and own.exists() == (not writable)


@pytest.mark.parametrize(("present", "installs"), [("2.20.2", True), ("v2.26.1", False), ("5.0.1-desktop.1", False)])
def test_a_compose_that_is_too_old_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, present: str, installs: bool
):
    (program := tmp_path / "docker").write_text(f"#!/bin/sh\necho {present}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(engine_module, "PLUGIN_FOLDERS", (str(tmp_path / "lib"), str(tmp_path / "home")))
    (carried := tmp_path / "carried").write_text("plugin")
    engine_module.install_plugin(carried)
    assert (tmp_path / "lib").exists() == installs


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "the archive has no Compose plugin"),
        ('{"Version": "v2.20.3"}', "is Compose v2.20.3; a node needs Compose 2.26 or newer"),
        ("no plugin", "is Compose of an unknown version; a node needs Compose 2.26"),
        ('{"Version": "v2.26.1"}', ""),
    ],
)
def test_a_plugin_that_cannot_serve_a_node_is_told(tmp_path: Path, answer: str | None, words: str):
    plugin = None
    if answer is not None:
        (plugin := tmp_path / "docker-compose").write_text(f"#!/bin/sh\necho '{answer}'\n")
        plugin.chmod(0o755)
    said = engine_module.old_plugin(plugin)
    assert words in said and bool(words) == bool(said)


@pytest.mark.parametrize("when", ["free space is looked at", "the images are saved", "the archive is written", "never"])
def test_a_disk_that_fills_up_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
):
    engine = Engine(tmp_path, "0")
    full = OSError(errno.ENOSPC, "No space left on device")

    def docker(*words: str, **settings: str) -> str:
        said = engine.docker(*words, **settings)
        if words[0] == "save" and when == "the images are saved":
            raise full
        return said

    def add(tar: tarfile.TarFile, path: Path, name: str) -> None:
        if when == "the archive is written":
            raise full

    for module in (save, engine_module):
        monkeypatch.setattr(module, "docker", docker)
    monkeypatch.setattr(save, "find_plugin", lambda: ROOT / "LICENSE")
    monkeypatch.setattr(save.contents, "tree_files", lambda: [ROOT / "LICENSE"])
    monkeypatch.setattr(save.bills, "of_images", lambda images: {})
    monkeypatch.setattr(tarfile.TarFile, "add", add)
    # Room for what is packed and the images' file, not for both of what the engine calls an image of 5 bytes.
    free = 2 if when == "free space is looked at" else 2 * (ROOT / "LICENSE").stat().st_size + len("amd64")
    monkeypatch.setattr(save.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    archive = tmp_path / "out/bundle.tar"
    archive.parent.mkdir()
    expected = pytest.raises(
        (OSError, ToolError), match="No space left|0.0 GiB are free, and 0.0 are needed; make room"
    )
    with contextlib.nullcontext() if when == "never" else expected:
        save.save(archive, ["debian:bookworm-slim"], weights=False)
    assert list(archive.parent.iterdir()) == ([archive] if when == "never" else [])
    assert "WARNING: " in capsys.readouterr().err


@pytest.mark.parametrize("containerd", [False, True])
def test_a_node_of_another_kind_gets_what_it_builds_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, containerd: bool
):
    """Wheels and base images for its processor, and the pinned sources; afterwards this machine has its own again. The
    engine and the wheels are simulated, git is real."""
    (sources := tmp_path / "vllm-ascend").mkdir()
    (sources / "setup.py").write_text("pinned")
    git = ("git", "-C", str(sources), "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "a", "--no-gpg-sign")):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    engine = Engine(sources, commit, containerd=containerd)
    for module in (to_build, engine_module, save):
        monkeypatch.setattr(module, "docker", engine.docker)
    monkeypatch.setattr(save, "find_plugin", lambda: ROOT / "LICENSE")
    monkeypatch.setattr(save.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(to_build, "ROOT", tmp_path)
    chosen = {"CANN_IMAGE": "cann:8.3", "VLLM_ASCEND_IMAGE": "compiled:v1"}
    for module in (to_build, save):
        monkeypatch.setattr(module, "VALUES", {"HARDWARE": "ascend", "ATLAS": "a2", "BASE_IMAGE": "", **chosen})
    fetch = tmp_path / "scripts/fetch_wheels.sh"
    fetch.parent.mkdir()
    fetch.write_text('#!/bin/sh\nmkdir -p "$4" && echo "$*" > "$4/a.whl"\n')
    fetch.chmod(0o755)
    with to_build.collected("aarch64", corpus=False) as parts:
        save.save(tmp_path / "bundle.tar", parts.images, weights=False, parts=parts)
    assert engine.images["debian:bookworm-slim"] == ("sha256:here", "amd64 arm64" if containerd else "amd64")
    (tmp_path / "node").mkdir()
    monkeypatch.chdir(tmp_path / "node")
    folder = load.unpack_here(tmp_path / "bundle.tar")
    manifest = load.read_checked(folder)
    bases = ("debian:bookworm-slim", "cann:8.3", "compiled:v1")
    assert manifest["layers"] == dict.fromkeys(bases, sha256sum(layers_of("arm64")))
    assert (folder / contents.IMAGES).read_text() == "arm64"
    assert manifest["architecture"] == "arm64" and manifest["builds"] is True
    asked = (folder / ".wheels/aarch64/a.whl").read_text().split()
    assert asked[:2] == ["--platform", "aarch64"] and asked[4:] == ["supervisor", "parser", "vlm-ascend"]
    assert (folder / "sources/vllm-ascend/setup.py").read_text() == "pinned"
    assert not (folder / "sources/catlass").exists() and not (folder / contents.PLUGIN).exists()
    assert (folder / "Dockerfile.ascend").is_file() and (folder / ".dockerignore").is_file()
    takeover.begin(folder, manifest["settings"])
    values = envfile.parse((folder / ".env").read_text(), {})
    assert values["WHEELS_DIR"] == "./.wheels/aarch64" and (folder / values["WHEELS_DIR"]).is_dir()
    assert (folder / "config/stacks" / values["VLLM_ASCEND_SOURCE"] / "setup.py").is_file()
    # The kind of the images, and what the site had chosen: the node would build or take others.
    assert {"HARDWARE": "ascend", "ATLAS": "a2", "STACK": "0.11.1", **chosen}.items() <= values.items()

    def same_for_all(*words: str, **settings: str) -> str:
        return "amd64" if words[:2] == ("image", "inspect") else engine.docker(*words, **settings)

    monkeypatch.setattr(to_build, "docker", same_for_all)
    with pytest.raises(EnvironmentSetupError, match="has no image for aarch64, the registry gave one for amd64"):
        to_build.collected("aarch64", corpus=False).__enter__()
