# SPDX-License-Identifier: Apache-2.0
"""Which weights are in use, and whether they are the demo weights."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path, PurePosixPath

import yaml

from docparser.errors import NotReady
from docparser.settings import Settings

LAYOUT_MODEL = "PP-DocLayoutV2"
MANIFEST = "SHA256SUMS"
# Beside the package, where an image for offline nodes may carry it (Dockerfiles: context layout_model).
CARRIED = Path(__file__).resolve().parents[2] / "layout_model" / LAYOUT_MODEL
DEMO_MARK = "# demo weights"  # first line of the demo's manifest, which an image carries along with the model
LAYOUT_FILES = ("inference.json", "inference.pdiparams", "inference.yml")


@dataclasses.dataclass(frozen=True)
class Weights:
    """``path`` is where they lie on the machine that has them loaded, if that is known."""

    model: str
    path: str | None
    demo: bool | None

    def as_dict(self) -> dict:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def is_demo(path: str | Path) -> bool:
    """The tracked demo weights, and nothing else, lie in a folder named ``demo`` under MODELS_DIR."""
    return PurePosixPath(path).parent.name == "demo"


def _says_demo(folder: Path) -> bool:
    manifest = folder / MANIFEST
    return manifest.is_file() and manifest.read_text(encoding="utf-8").startswith(DEMO_MARK)


def _vlm_folder(settings: Settings) -> str:
    """The VLM's folder under MODELS_DIR. VLM_MODEL is a name in models.yaml or a path, as for the VLM's launcher."""
    config = {}
    if settings.models_config.is_file():
        config = yaml.safe_load(settings.models_config.read_text(encoding="utf-8"))
    name = settings.vlm_model or config.get("default", "PaddleOCR-VL")
    return config.get("models", {}).get(name, {}).get("path", name)


def find_layout_model(settings: Settings) -> Weights:
    """LAYOUT_MODEL_DIR if it is set; else the folder inside the VLM's, else beside it, else the one that the image carries.

    Else the demo's, but on CPU only, and only where VLM_MODEL names no other weights. Raises NotReady that names
    every folder it looked into.
    """
    if settings.layout_model_dir is not None:
        candidates = [settings.layout_model_dir]
    else:
        root, vlm = settings.models_dir, _vlm_folder(settings)
        candidates = [root / vlm / LAYOUT_MODEL, root / LAYOUT_MODEL, CARRIED]
        if settings.hardware == "cpu" and (settings.vlm_model is None or is_demo(root / vlm)):
            candidates.append(root / "demo" / LAYOUT_MODEL)
    for folder in candidates:
        if all((folder / name).is_file() for name in LAYOUT_FILES):
            return Weights(LAYOUT_MODEL, str(folder), is_demo(folder.absolute()) or _says_demo(folder))
    looked = ", ".join(str(folder) for folder in candidates)
    raise NotReady(
        f"The layout model {LAYOUT_MODEL} was not found: looked for {', '.join(LAYOUT_FILES)} in {looked}. "
        "Set LAYOUT_MODEL_DIR, or put the published weights under MODELS_DIR."
    )


def check_manifest(folder: Path) -> bool:
    """Compares the layout model's files with the SHA256SUMS beside them, in the format of sha256sum; False if there is
    none. Raises NotReady for a file that differs, is missing, or is not listed: such weights must not serve."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return False
    listed = {}
    for line in manifest.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            digest, _, name = line.partition(" ")
            listed[name.lstrip(" *")] = digest
    for name in LAYOUT_FILES:
        if name not in listed:
            raise NotReady(f"The layout model's {name} is not listed in {manifest}; fetch the weights again")
        with (folder / name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != listed[name]:
            raise NotReady(f"The layout model's {folder / name} is not the file that {manifest} lists; fetch it again")
    return True
