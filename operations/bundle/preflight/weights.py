# SPDX-License-Identifier: Apache-2.0
"""The weights that `docker compose up` would serve: there, whole, and readable by the containers' user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from bundle.compose.mounted import MODELS, on_host
from bundle.paths import ROOT
from bundle.preflight.machine import Finding, Machine, exists, passed
from served_weights import layout, manifest
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm, is_absent, named
from tool_errors import UsageError, WeightsError

OWN = "config/models.yaml"  # of the bundle; the images have it too
FETCH = "scripts/fetch_weights.sh hf{} (or modelscope, a folder or a tar archive in the place of hf)"
RECOMMENDED = FETCH.format("")


def remedy(settings: WeightSettings) -> str:
    """How the weights that the settings name come to their folder."""
    model, folder = named(settings)
    if not settings.vlm_model and is_absent(folder):
        return RECOMMENDED
    if model.repository is None or folder != settings.models_dir / model.path:
        return f"copy the weights to {folder}, or name another model in VLM_MODEL"
    return RECOMMENDED if model == settings.catalog.recommended else FETCH.format(f" {model.name}")


def check_weights(machine: Machine) -> Iterator[Finding]:
    """Everything about weights, by the rules that launcher and parser follow."""
    config = machine.values.get("MODELS_CONFIG")
    if config and config != OWN and not Path(config).is_relative_to(MODELS):
        yield Finding(
            "WARN",
            "weights",
            f"MODELS_CONFIG is {config}, a file inside the containers that cannot be seen here",
            f"a file below {MODELS}, where MODELS_DIR is mounted, so that the weights can be checked",
            f"put it into MODELS_DIR, and set MODELS_CONFIG={MODELS}/{Path(config).name} in .env",
        )
        return
    try:
        settings = WeightSettings.from_environment({**on_host(machine.values), "HARDWARE": machine.hardware})
        known = ", ".join(settings.catalog.models)
    except UsageError as error:
        yield Finding("FAIL", "weights", str(error), "settings that can be used", "fix .env or config/models.yaml")
        return
    if not (exists(settings.models_dir) and settings.models_dir.is_dir()):
        yield Finding(
            "FAIL",
            "weights",
            f"MODELS_DIR: {settings.models_dir} is no folder",
            f"the folder in which the weights lie, in a folder each: one or more of {known}",
            f"make it, then: {remedy(settings)}; or set MODELS_DIR in .env",
        )
        return
    yield from stack(settings, machine)
    found = [vlm(settings)]
    if layout.has_one(named(settings)[0]):  # other VLMs read whole pages
        found.append(layout_model(settings, machine))
    yield from (finding for finding, _ in found)
    yield from check_permissions(settings.models_dir, [folder for _, folder in found if folder])


def stack(settings: WeightSettings, machine: Machine) -> Iterator[Finding]:
    """Whether the vLLM that STACK builds can serve the model: it is known before an hour of building."""
    try:
        named(settings)[0].check_stack(machine.stack, machine.hardware)
    except WeightsError:
        return  # `vlm` says it
    except UsageError as error:
        yield Finding(
            "FAIL",
            "stack",
            str(error),
            "a stack that can serve VLM_MODEL",
            "set STACK in .env, then build or load that",
        )


def vlm(settings: WeightSettings) -> tuple[Finding, Path | None]:
    """What is to be said of the VLM's weights, and their folder where there are some."""
    try:
        weights = find_vlm(settings)
    except WeightsError as error:
        return Finding("FAIL", "weights", str(error), "config.json and *.safetensors", remedy(settings)), None
    demo = None
    if weights.demo and not settings.vlm_model:
        home = settings.models_dir / settings.catalog.recommended.path
        demo = (f"{home} is not there; the demo weights in {weights.path} would be served", "the published weights")
    return compared("weights", weights.path, manifest.verify, settings, demo), weights.path


def compared(
    check: str, folder: Path, verify: Callable[[Path], int], settings: WeightSettings, demo: tuple[str, str] | None
) -> Finding:
    """Whether weights that are there agree with their manifest. `demo`: what is found and what is needed instead, of
    weights that are the demo's because nothing else is there."""
    try:
        count = verify(folder)
    except WeightsError as error:
        return Finding("FAIL", check, str(error), "the files of the manifest", remedy(settings))
    if demo:
        return Finding("WARN", check, *demo, RECOMMENDED)
    return passed(check, f"{folder}" + ("" if count else f", no {manifest.NAME} to compare with"))


def layout_model(settings: WeightSettings, machine: Machine) -> tuple[Finding, Path | None]:
    """What is to be said of the layout model, and its folder where it is on this machine."""
    source = machine.values.get("LAYOUT_MODEL_SOURCE")
    carried = (ROOT / source).resolve() if source else None
    try:
        weights = layout.find_layout(settings, carried)
    except WeightsError as error:
        return layout_missing(error, layout.name_of(named(settings)[0]), machine), None
    demo = None
    if weights.demo and not settings.vlm_model and not settings.layout_model_dir:
        demo = (f"the demo's in {weights.path} would be used", f"the published {weights.name}")
    return compared("layout model", weights.path, layout.verify_layout, settings, demo), weights.path


def layout_missing(error: WeightsError, name: str, machine: Machine) -> Finding:
    """A layout model that is not on this machine: a mistake, unless the image carries it, which cannot be seen here."""
    directory, source = machine.values.get("LAYOUT_MODEL_DIR"), machine.values.get("LAYOUT_MODEL_SOURCE")
    if (directory and not Path(directory).is_relative_to(MODELS)) or (source and not directory):
        return Finding(
            "WARN",
            "layout model",
            f"{directory or source} is not there, or holds no {name}",
            f"an image that carries {name}",
            "nothing, where the image was built with LAYOUT_MODEL_SOURCE",
        )
    return Finding(
        "FAIL",
        "layout model",
        str(error),
        f"the folder {name} with {', '.join(layout.FILES)}",
        (f"copy {name} into the VLM's folder, as it is published, or build it into the image (LAYOUT_MODEL_SOURCE)"),
    )


def check_permissions(models_dir: Path, folders: list[Path]) -> Iterator[Finding]:
    """The first file or folder that the containers' user, which owns none of them, cannot read. `models_dir` is what
    compose mounts."""
    below = (path for folder in folders for path in (folder, *folder.rglob("*")))
    for path in (models_dir, *below) if models_dir.is_dir() else below:
        needed = 0o005 if path.is_dir() else 0o004
        if path.stat().st_mode & needed != needed:
            yield Finding(
                "FAIL",
                "permissions",
                f"{path} cannot be read by others",
                "files that user 10001 can read",
                f"chmod -R a+rX {models_dir}",
            )
            return


CHECKS = (check_weights,)
