# SPDX-License-Identifier: Apache-2.0
"""scripts/fetch_weights.sh: weights from a model hub, a folder or a tar archive, put in place only when they are whole.

The script collects everything beside its final place (`.PaddleOCR-VL.part`), checks there that it is whole and the
very model, and then renames it: the services never see a half-written folder. The next call continues what an
interrupted one began.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from functools import partial
from pathlib import Path

from bundle.archives import unpack
from bundle.compose import mounted
from bundle.environments.uv import ensure_uv, registry_environment
from bundle.paths import RUN_DIR, VALUES, shown
from bundle.progress import run_logged, say, step
from served_weights import layout, vlm
from served_weights.catalog import Catalog, Model
from served_weights.manifest import NAME, digest, write
from served_weights.placing import check_whole, gather, is_whole, part_of, put_in_place
from served_weights.settings import WeightSettings
from tool_errors import RESUMABLE, EnvironmentSetupError, UsageError, run

# Both clients go on with files that were begun. Their hubs' addresses are their own; HF_ENDPOINT names a mirror.
# {0} is the repository, {1} the folder. Of modelscope the newest for Python 3.9: 1.33 imports pkg_resources, which
# setuptools has no longer.
HUBS = {
    "hf": "--from huggingface_hub[cli]==0.36.0 hf download {0} --local-dir {1}",
    "modelscope": "--from modelscope==1.37.1 modelscope download --model {0} --local_dir {1}",
}


def download(hub: str, repository: str, part: Path) -> None:
    """Download one repository with the hub's own client, in an environment that is gone afterwards."""
    log = RUN_DIR / "logs" / "fetch-weights.log"
    words = [str(ensure_uv()), "tool", "run", *(word.format(repository, part) for word in HUBS[hub].split())]
    # The second protocol of Hugging Face asks other hosts than HF_ENDPOINT.
    env = {"HF_HUB_DISABLE_XET": "1", **registry_environment()}
    if certificates := env.get("SSL_CERT_FILE"):  # the clients' requests reads another variable
        env = {"REQUESTS_CA_BUNDLE": certificates, **env}
    if run_logged(words, log, f"downloading {repository} from {hub}", env):
        raise EnvironmentSetupError(
            f"{hub}: the download failed (log: {shown(log)}); run the same command to go on, or carry "
            "the folder here and give its path"
        )


def from_folder(source: Path, part: Path) -> None:
    """Copy file by file. Files that an earlier call copied completely from here are kept; those from elsewhere are
    removed."""
    for path in sorted(part.rglob("*"), reverse=True):
        if not (source / path.relative_to(part)).exists():
            path.rmdir() if path.is_dir() else path.unlink()
    for path in sorted(source.rglob("*")):
        target = part / path.relative_to(source)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        elif not (target.is_file() and target.stat().st_size == path.stat().st_size and digest(target) == digest(path)):
            shutil.copyfile(path, target)


def from_archive(source: Path, model: Model, part: Path) -> None:
    """Unpack a tar archive; a single folder around everything is taken away."""
    shutil.rmtree(part)
    part.mkdir()
    unpack(source, part)
    inside = list(part.iterdir())
    if len(inside) == 1 and inside[0].is_dir() and inside[0].name != layout.name_of(model):
        for path in inside[0].iterdir():
            path.rename(part / path.name)
        inside[0].rmdir()


def check_named(folder: Path, source: str, model: Model, catalog: Catalog) -> None:
    """Raise UsageError where a folder holds another model than the one that was named, or that nobody named."""
    if not (why := vlm.why_other(folder, model, catalog)):
        return
    true = vlm.recognised(folder, catalog)
    remedy = "give the folder or archive of its weights"
    if not vlm.why_other(folder, true, catalog):
        remedy = f"run scripts/fetch_weights.sh {shlex.quote(source)} {true.name}"
    raise UsageError(f"{source}: the weights are not {model.name}: {why}; {remedy}")


def fetch(source: str, models: Path, model: Model, catalog: Catalog) -> None:
    """Bring the model's weights from `source` to its folder in `models`. Raises UsageError, WeightsError,
    EnvironmentSetupError."""
    target = models / model.path
    part = part_of(target)
    if is_whole(target):
        say(f"{shown(target)} is there and agrees with its manifest; remove it to fetch it again")
        return
    if source not in HUBS and Path(source).is_dir():
        check_named(Path(source), source, model, catalog)  # before gigabytes are copied
    part.mkdir(parents=True, exist_ok=True)
    if source in HUBS:
        gather(model, part, partial(download, source))
    elif Path(source).is_dir():
        with step(f"copying {source}"):
            from_folder(Path(source), part)
    elif Path(source).is_file():
        with step(f"unpacking {source}"):
            from_archive(Path(source), model, part)
        check_named(part, source, model, catalog)
    else:
        raise UsageError(f"{source}: expected {', '.join(HUBS)}, a folder or a tar archive")
    check_whole(part, model, catalog)
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
    parser = argparse.ArgumentParser(prog="scripts/fetch_weights.sh", description="Bring published weights here.")
    parser.add_argument("source", metavar="hf|modelscope|PATH", help="a model hub, or a folder or tar archive")
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", help="an entry of config/models.yaml (default: the newest PaddleOCR-VL)"
    )
    options = parser.parse_args(words)

    def command() -> None:
        settings = WeightSettings.from_environment(mounted.on_host(VALUES))
        catalog = settings.catalog
        name = options.model or catalog.recommended.name
        if name not in catalog.models:
            raise UsageError(f"{name}: expected one of {', '.join(catalog.models)}")
        fetch(options.source, settings.models_dir, catalog.models[name], catalog)

    return run(command, RESUMABLE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
