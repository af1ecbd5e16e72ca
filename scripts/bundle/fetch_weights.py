# SPDX-License-Identifier: Apache-2.0
"""scripts/fetch_weights.sh: weights from a model hub, a folder or a tar archive, put in place only when they are whole.

Everything is gathered beside the place where it will be (`.PaddleOCR-VL.part`), checked there, and then renamed: what
the services see is never half-written. An interrupted call goes on with what it has.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from .archives import unpack
from .errors import EnvironmentSetupError, UsageError, outcome
from .manifest import NAME, check_manifest, digest, write_manifest
from .paths import ROOT, RUN_DIR, VALUES, shown
from .progress import run_logged, say, step
from .uv import ensure_uv, registry_environment

MODEL = "PaddleOCR-VL"
LAYOUT = "PP-DocLayoutV2"
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
        raise EnvironmentSetupError(f"{hub}: the download failed (log: {shown(log)}); run the same command to go on, or carry "
                                    "the folder here and give its path")
    for leftover in (".cache", ".git", "._____temp"):
        shutil.rmtree(part / leftover, ignore_errors=True)


def from_folder(source: Path, part: Path) -> None:
    """Copy file by file; what an earlier call copied whole is kept."""
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
    if len(inside) == 1 and inside[0].is_dir() and inside[0].name != LAYOUT:
        for path in inside[0].iterdir():
            path.rename(part / path.name)
        inside[0].rmdir()


def check_whole(part: Path) -> None:
    """Raise UsageError unless the folder holds a model, the layout model, and what its manifest lists."""
    for name in ("config.json", f"{LAYOUT}/inference.json", f"{LAYOUT}/inference.pdiparams", f"{LAYOUT}/inference.yml"):
        if not (part / name).is_file():
            raise UsageError(f"the weights lack {name}; expected the folder as it is published, with {LAYOUT} inside")
    if not list(part.glob("*.safetensors")):
        raise UsageError("the weights lack *.safetensors, the only format that is loaded")
    for path in part.glob("*.safetensors"):
        with path.open("rb") as stream:
            if stream.read(9)[8:] != b"{":
                raise UsageError(f"{path.name} is not a safetensors file (a pointer of a large-file store?); fetch it anew")
    if trouble := check_manifest(part):
        raise UsageError(trouble)


def put_in_place(part: Path, target: Path) -> None:
    """Rename the finished folder to its name; what was there before goes only then."""
    for path in (part, *part.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    former = target.with_name(f".{target.name}.old")
    shutil.rmtree(former, ignore_errors=True)
    if target.exists():
        target.rename(former)
    part.rename(target)
    shutil.rmtree(former, ignore_errors=True)


def fetch(source: str, models: Path) -> None:
    """Bring the weights from `source` to `models`/PaddleOCR-VL."""
    target, part = models / MODEL, models / f".{MODEL}.part"
    if (target / NAME).is_file() and not check_manifest(target):
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
        count = write_manifest(part)
        say(f"the source has no {NAME}: {count} files are listed as they came; compare {shown(target / NAME)} with another "
            "site's to be sure of them")
    put_in_place(part, target)
    say(f"{shown(target)} is whole")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/fetch_weights.sh", description="Bring the published weights here.")
    parser.add_argument("source", metavar="hf|modelscope|PATH", help="a model hub, or a folder or tar archive")
    options = parser.parse_args(words)
    return outcome(lambda: fetch(options.source, (ROOT / (VALUES.get("MODELS_DIR") or "models")).resolve()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
