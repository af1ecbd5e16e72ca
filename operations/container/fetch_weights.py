# SPDX-License-Identifier: Apache-2.0
"""The weights of VLM_MODEL for a cluster, from Hugging Face to MODELS_DIR; weights that are there are checked.

The Job of deploy/kubernetes/components/fetch-models runs it in the VLM's image, whose environment has the hub's client.
On a node scripts/fetch_weights.sh does this, with the same rules: files are gathered beside their place, which they get
when they are whole.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from served_weights.catalog import Catalog, Model
from served_weights.manifest import NAME, write
from served_weights.placing import check_whole, gather, part_of, put_in_place
from served_weights.settings import WeightSettings
from served_weights.vlm import there
from tool_errors import EnvironmentSetupError, UsageError, WeightsError, run


def chosen(settings: WeightSettings, catalog: Catalog) -> Model:
    """The entry of models.yaml that VLM_MODEL names, else the newest that lies there, else the recommended one.

    Raises UsageError.
    """
    if settings.vlm_model is None:
        return (there(settings) or [catalog.recommended])[0]
    name = settings.vlm_model
    if name not in catalog.models:
        raise UsageError(
            f"VLM_MODEL is {name!r}; expected one of {', '.join(catalog.models)}, whose weights can be fetched"
        )
    return catalog.models[name]


def download(repository: str, folder: Path) -> None:
    """Let the hub's client bring a repository; it goes on with files that were begun. Raises EnvironmentSetupError."""
    client = Path(os.environ["ENVS_DIR"]) / "vlm/bin/hf"
    words = [str(client), "download", repository, "--local-dir", str(folder)]
    if subprocess.run(words, stdin=subprocess.DEVNULL, check=False).returncode:
        raise EnvironmentSetupError(
            f"hf: the download of {repository} failed, the lines above say why; it goes on at the next try. Without a "
            "network, fill the volume by hand (docs/kubernetes.md); HF_ENDPOINT names a mirror"
        )


def check(folder: Path, model: Model, catalog: Catalog) -> None:
    """Raise WeightsError unless the folder is whole; list its files where nobody has."""
    check_whole(folder, model, catalog)
    if not (folder / NAME).is_file():
        print(f"{folder} has no {NAME}: {write(folder)} files are listed as they are", flush=True)


def main() -> None:
    settings = WeightSettings.from_environment(os.environ)
    catalog = settings.catalog
    model = chosen(settings, catalog)
    target = settings.models_dir / model.path
    if target.exists():
        try:
            check(target, model, catalog)
        except WeightsError as error:
            raise WeightsError(f"{error}. Nothing was changed; remove {target} to fetch it") from error
    else:
        part = part_of(target)
        gather(model, part, download)
        check(part, model, catalog)
        put_in_place(part, target)
    print(f"{target} is whole", flush=True)


if __name__ == "__main__":
    sys.exit(run(main))
