# SPDX-License-Identifier: Apache-2.0
"""scripts/offline_bundle.sh: images, compose files, scripts, the Compose plugin and (optionally) weights in one archive.

The archive holds one folder, `paddleocr-vl/`, that works where it is unpacked. `load` checks every file against the
manifest of digests, loads the images, compares their ids, and ends with scripts/preflight.sh.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from .archives import unpack
from .containers import hardware
from .errors import BundleError, EnvironmentSetupError, UsageError, exit_status
from .manifest import digest
from .paths import ROOT, VALUES
from .progress import say, step

FOLDER = "paddleocr-vl"
MANIFEST = "offline.json"
IMAGES, PLUGIN = "images.tar", "docker-compose"
TREE = ("LICENSE", "README.md", "README.zh-CN.md", "CHANGELOG.md", ".env.example", "compose.yaml", "config", "scripts",
        "docs", "model_code/vlm_server", "model_code/reference", "models/README.md", "models/demo", "tests/data/report.png")
PLUGIN_FOLDERS = ("~/.docker/cli-plugins", "/usr/local/lib/docker/cli-plugins", "/usr/local/libexec/docker/cli-plugins",
                  "/usr/lib/docker/cli-plugins", "/usr/libexec/docker/cli-plugins")


def docker(*words: str) -> str:
    """Output of a docker command; raises EnvironmentSetupError with its last line."""
    result = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    if result.returncode:
        last = (result.stderr or result.stdout).strip().splitlines()
        raise EnvironmentSetupError(f"docker {words[0]}: {last[-1] if last else 'failed'}")
    return result.stdout.strip()


def bundle_images() -> list[str]:
    """The two images of this HARDWARE and STACK."""
    kind, stack = hardware(VALUES), VALUES.get("STACK") or "0.11.1"
    return [f"paddleocr-vl/vlm-{kind}:{stack}", f"paddleocr-vl/parser:{kind}"]


def compose_plugin() -> Path | None:
    """The Compose plugin of this machine, which openEuler's own Docker lacks."""
    listed = json.loads(docker("info", "--format", "{{json .ClientInfo.Plugins}}") or "null") or []
    paths = [Path(entry["Path"]) for entry in listed if entry.get("Name") == "compose" and entry.get("Path")]
    paths += [Path(folder).expanduser() / PLUGIN for folder in PLUGIN_FOLDERS]
    return next((path for path in paths if path.is_file()), None)


def tree_files(names: tuple[str, ...]) -> list[Path]:
    """Files of the checkout that travel, without what Python left behind."""
    found: list[Path] = []
    for name in names:
        path = ROOT / name
        found += [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return [path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc"]


def save(archive: Path, images: list[str], weights: bool) -> None:
    """Write the archive; it gets its name only when it is whole."""
    part = archive.with_name(f"{archive.name}.part")
    ids = {image: docker("image", "inspect", "--format", "{{.Id}}", image) for image in images}
    stored = archive.with_name(f"{archive.name}.images")
    files = [(path, str(path.relative_to(ROOT))) for path in tree_files(TREE)]
    if weights:
        models = (ROOT / (VALUES.get("MODELS_DIR") or "models")).resolve() / "PaddleOCR-VL"
        if not models.is_dir():
            raise UsageError(f"--weights: {models} is not there; scripts/fetch_weights.sh")
        files += [(path, f"models/PaddleOCR-VL/{path.relative_to(models)}") for path in sorted(models.rglob("*"))
                  if path.is_file()]
    if plugin := compose_plugin():
        files.append((plugin, PLUGIN))
    try:
        with step(f"saving {', '.join(images)}"):
            docker("save", "--output", str(stored), *images)
        files.append((stored, IMAGES))
        with step(f"writing {archive}"), tarfile.open(part, "w") as tar:
            # The manifest comes first, so that a look at the archive shows what it is.
            # The images' digest takes minutes, the others' are taken last: a file may be edited meanwhile.
            listed = {name: digest(path) for path, name in reversed(files)}
            text = json.dumps({"images": ids, "files": listed}, indent=1).encode()
            info = tarfile.TarInfo(f"{FOLDER}/{MANIFEST}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
            for path, name in files:
                tar.add(path, f"{FOLDER}/{name}")
    finally:
        stored.unlink(missing_ok=True)
    part.replace(archive)
    say(f"{archive}: {archive.stat().st_size / 2**30:.1f} GiB, {len(images)} images, {len(files)} files")


def unpack_here(archive: Path) -> Path:
    """Unpack an archive into the current folder; returns the bundle's folder."""
    with step(f"unpacking {archive}"):
        unpack(archive, Path.cwd())
    return Path.cwd() / FOLDER


def load(folder: Path) -> int:
    """Check the files, load the images, and look at the machine; returns preflight's status."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / MANIFEST} cannot be read ({error}); give the archive that `save` wrote") from error
    with step(f"checking {len(manifest['files'])} files"):
        for name, expected in manifest["files"].items():
            if not (folder / name).is_file() or digest(folder / name) != expected:
                raise UsageError(f"{folder / name} is missing or damaged; copy the archive again")
    with step("loading the images"):
        docker("load", "--input", str(folder / IMAGES))
    for image, expected in manifest["images"].items():
        if docker("image", "inspect", "--format", "{{.Id}}", image) != expected:
            raise EnvironmentSetupError(f"{image} is not the image that was saved; remove it and load again")
    install_plugin(folder / PLUGIN)
    return subprocess.run([folder / "scripts/preflight.sh"], check=False).returncode


def install_plugin(carried: Path) -> None:
    """Put the Compose plugin where this user's docker finds it, unless there is one."""
    if not carried.is_file() or subprocess.run(["docker", "compose", "version"], capture_output=True,
                                               check=False).returncode == 0:
        return
    target = Path(PLUGIN_FOLDERS[0]).expanduser() / PLUGIN
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(carried, target)
    target.chmod(0o755)
    say(f"the Compose plugin is now {target}")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/offline_bundle.sh", description="Carry the bundle to an air-gapped site.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    saving = verbs.add_parser("save", help="write an archive")
    saving.add_argument("archive", type=Path)
    saving.add_argument("--weights", action="store_true", help="with MODELS_DIR/PaddleOCR-VL")
    saving.add_argument("--images", nargs="+", metavar="IMAGE", help="default: the two images of HARDWARE and STACK")
    loading = verbs.add_parser("load", help="load an archive, or the folder that it was unpacked to")
    loading.add_argument("archive", type=Path, nargs="?")
    options = parser.parse_args(words)
    try:
        if shutil.which("docker") is None:
            raise UsageError("docker is missing; scripts/preflight.sh says how to install it")
        if options.verb == "save":
            save(options.archive.absolute(), options.images or bundle_images(), options.weights)
            return 0
        return load(unpack_here(options.archive) if options.archive else ROOT)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
