# SPDX-License-Identifier: Apache-2.0
"""Which weights are in use, as the parser reports them. ``served_weights`` decides which they are."""

from __future__ import annotations

import dataclasses

from docparser.errors import NotReady
from docparser.settings import Settings
from served_weights import layout
from served_weights.settings import WeightSettings
from tool_errors import UsageError


@dataclasses.dataclass(frozen=True)
class Weights:
    """``path`` is where they lie on the machine that has them loaded, if that is known."""

    model: str
    path: str | None
    demo: bool | None

    def as_dict(self) -> dict:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def find_layout_model(settings: Settings, *, verify: bool = False) -> Weights:
    """The layout model's weights; with ``verify`` their files are compared with the manifest beside them.

    Raises NotReady that names every folder it looked into, or the file that is not the listed one.
    """
    asked = WeightSettings(
        models_dir=settings.models_dir,
        hardware=settings.hardware,
        vlm_model=settings.vlm_model,
        layout_model_dir=settings.layout_model_dir,
        models_config=settings.models_config,
    )
    try:
        found = layout.find_layout(asked)
        if verify:
            layout.verify_layout(found.path)
    except UsageError as error:
        raise NotReady(str(error)) from error
    return Weights(layout.NAME, str(found.path), found.demo)
