# SPDX-License-Identifier: Apache-2.0
"""scripts/fetch_weights.sh: weights from a model hub, a folder or a tar archive, put in place only when they are whole.

The script collects everything beside its final place (`.PaddleOCR-VL.part`), checks it there, and then renames it: the
services never see a half-written folder. The next call continues what an interrupted one began.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from bundle.archives import unpack
from bundle.environments.uv import ensure_uv, registry_environment
from bundle.paths import ROOT, RUN_DIR, VALUES, shown
from bundle.progress import run_logged, say, step
from served_weights import layout, vlm
from served_weights.errors import WeightsError
from served_weights.manifest import NAME, digest, verify, write
from tool_errors import RESUMABLE, EnvironmentSetupError, UsageError, run

MODEL = "PaddleOCR-VL"  # the name of its folder too
REPOSITORY = f"PaddlePaddle/{MODEL}"
# Both clients go on with files that were begun. Their hubs' addresses are their own; HF_ENDPOINT names a mirror.
HUBS = {
    "hf": ("huggingface_hub[cli]==0.36.0", ["hf", "download", REPOSITORY, "--local-dir"]),
    "modelscope": ("modelscope==1.33.0", ["modelscope", "download", "--model", REPOSITORY, "--local_dir"]),
}


def from_hub(hub: str, part: Path) -> None:
    """Download with the hub's own client, in an environment that is gone afterwards."""
    package, command = HUBS[hub]
    log = RUN_DIR / "logs" / "fetch-weights.log"
    words = [str(ensure_uv()), "tool", "run", "--from", package, *command, str(part)]
    if run_logged(words, log, f"downloading {REPOSITORY} from {hub}", registry_environment()):
        raise EnvironmentSetupError(
            f"{hub}: the download failed (log: {shown(log)}); run the same command to go on, or carry "
            "the folder here and give its path"
        )
    for leftover in (".cache", ".git", "._____temp"):
        shutil.rmtree(part / leftover, ignore_errors=True)


def from_folder(source: Path, part: Path) -> None:
    """Copy file by file; files that an earlier call copied completely are kept."""
    for path in sorted(source.rglob("*")):
        target = part / path.relative_to(source)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif not (target.is_file() and target.stat().st_size == path.stat().st_size and digest(target) == digest(path)):
            shutil.copyfile(path, target)


def from_archive(source: Path, part: Path) -> None:
    """Unpack a tar archive; a single folder around everything is taken away."""
    shutil.rmtree(part)
    part.mkdir()
    unpack(source, part)
    inside = list(part.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and inside[0].name != layout.NAME:
        for path in inside[0].iterdir():
            path.rename(part / path.name)
        inside[0].rmdir()


def check_whole(part: Path) -> None:
    """Raise WeightsError unless the folder holds a model, the layout model, and what its manifest lists."""
    vlm.check_complete(part)
    for name in layout.FILES:
        if not (part / layout.NAME / name).is_file():
            raise WeightsError(
                f"the weights lack {layout.NAME}/{name}; expected the folder as it is published, with {layout.NAME} "
                "inside"
            )
    verify(part)


def is_whole(folder: Path) -> bool:
    """Whether the folder has a manifest and agrees with it."""
    try:
        return verify(folder) > 0
    except WeightsError:
        return False


def put_in_place(part: Path, target: Path) -> None:
    """Rename the finished folder to its final name, and only then remove what was there before."""
    for path in (part, *part.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    former = target.with_name(f".{target.name}.old")
    shutil.rmtree(former, ignore_errors=True)
    if target.exists():
        target.rename(former)
    part.rename(target)
    shutil.rmtree(former, ignore_errors=True)


def fetch(source: str, models: Path) -> None:
    """Bring the weights from `source` to `models`/PaddleOCR-VL. Raises UsageError, WeightsError,
    EnvironmentSetupError."""
    target, part = models / MODEL, models / f".{MODEL}.part"
    if is_whole(target):
        say(f"{shown(target)} is there and agrees with its manifest; remove it to fetch it anew")
        return
    models.mkdir(parents=True, exist_ok=True)
    part.mkdir(exist_ok=True)
    if source in HUBS:
        from_hub(source, part)
    elif Path(source).is_dir():
        with step(f"copying {source}"):
            from_folder(Path(source), part)
    elif Path(source).is_file():
        with step(f"unpacking {source}"):
            from_archive(Path(source), part)
    else:
        raise UsageError(f"{source}: expected {', '.join(HUBS)}, a folder or a tar archive")
    check_whole(part)
    if not (part / NAME).is_file():
        count = write(part)
        say(
            f"the source has no {NAME}: {count} files are listed as they came; compare {shown(target / NAME)} "
            "with another "
            "site's to be sure of them"
        )
    put_in_place(part, target)
    say(f"{shown(target)} is whole")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fetch_weights.sh", description="Bring the published weights here.")
    parser.add_argument("source", metavar="hf|modelscope|PATH", help="a model hub, or a folder or tar archive")
    options = parser.parse_args(words)
    return run(lambda: fetch(options.source, (ROOT / (VALUES.get("MODELS_DIR") or "models")).resolve()), RESUMABLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
