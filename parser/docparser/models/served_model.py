# SPDX-License-Identifier: Apache-2.0
"""The model that this service reads with, and what a request for another one gets."""

from __future__ import annotations

import dataclasses

from docparser.contract.tasks import Tasks, WholePages
from docparser.errors import InvalidJob
from docparser.settings import Settings
from docparser.weights import Recipe, has_preprocessor, load_pipeline, pipeline_file, reads_whole_pages, served_model

# Names that the SDKs send for the PaddleOCR-VL pipeline (paddleocr 3.7, `_api_client/models.py`); PaddleOCR-VL-1.6 is
# what they send where nobody names one.
SDK_NAMES = ("PaddleOCR-VL", "PaddleOCR-VL-1.5", "PaddleOCR-VL-1.6")


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """``name`` is the entry in models.yaml, ``served_name`` what results call it. ``tasks``: None where nobody says
    which it knows. ``strict``: a request for another version is refused. ``recipe``: how it reads whole pages; None
    for one that reads the blocks of a layout model. ``preprocessor``: pages are turned and flattened first."""

    name: str
    served_name: str
    tasks: tuple[str, ...] | None
    strict: bool
    recipe: Recipe | None = None
    preprocessor: bool = False

    @classmethod
    def of(cls, settings: Settings) -> ServedModel:
        """Raises NotReady for settings that lead to no model, and for a model's file that cannot be used."""
        model = served_model(settings)
        common, file = (model.name, settings.vlm_model_name), pipeline_file(settings)
        if reads_whole_pages(settings):
            recipe = Recipe.load(file, model.tasks)
            return cls(*common, tuple(recipe.prompts), settings.strict_model, recipe)
        turned = has_preprocessor(load_pipeline(file))
        return cls(*common, model.tasks, settings.strict_model, preprocessor=turned)

    def accepted(self) -> Tasks:
        """What requests may ask of it."""
        if self.recipe is None:
            return Tasks(self.name, self.tasks, preprocessor=self.preprocessor)
        return WholePages(self.name, self.tasks, self.recipe.usual)

    def how_it_reads(self) -> dict[str, bool]:
        """What answers say of it beside its name: nothing for a model that reads blocks."""
        return {"wholePages": True, "general": self.recipe.general} if self.recipe else {}

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.served_name, self.name)))

    @property
    def versions(self) -> tuple[str, ...]:
        """Names of this pipeline in the job API beside its own."""
        return tuple(name for name in SDK_NAMES if name not in self.own_names)

    @property
    def job_names(self) -> tuple[str, ...]:
        return self.own_names if self.strict else (*self.own_names, *self.versions)

    def check(self, asked: str) -> None:
        """Raises InvalidJob for a pipeline that is not served here, like PP-OCRv5, and with ``strict`` for another
        version of this one."""
        if asked in self.own_names:
            return
        if asked not in SDK_NAMES:
            raise InvalidJob(
                f"model: {asked!r} is not served here; expected one of {', '.join((*self.own_names, *self.versions))}. "
                f"{self.served_name} reads for all of them; the answer and the result name it."
            )
        if self.strict:
            raise InvalidJob(
                f"model: {asked!r} is not served here. PARSER_STRICT_MODEL allows only {' or '.join(self.own_names)}; "
                "send that"
            )

    def note(self, asked: str) -> str | None:
        """What a client is told whose request names another version than the one that reads; None for its own."""
        if asked in self.own_names:
            return None
        return f"{asked} was asked for, but {self.served_name} is served here and reads the pages."
