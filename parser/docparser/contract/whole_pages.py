# SPDX-License-Identifier: Apache-2.0
"""Options of a request to a service whose VLM reads whole pages, without a layout model."""

from __future__ import annotations

from collections.abc import Collection

from docparser.contract.schemas import ParseOptions
from docparser.contract.tasks import Tasks

# What takes a model that is not there. Clients do not set these for every document.
PREPROCESSING = ("useDocOrientationClassify", "useDocUnwarping")
# What says how blocks are found, cut out and asked for.
OF_LAYOUT = (
    "useChartRecognition",
    "useSealRecognition",
    "useOcrForImageBlock",
    "layoutThreshold",
    "layoutNms",
    "layoutUnclipRatio",
    "layoutMergeBboxesMode",
    "mergeLayoutBlocks",
    "vlmExtraArgs",
)


class WholePages(Tasks):
    """A page is read by one task: ``promptLabel``, or ``usual``. As everywhere, promptLabel counts where no layout is
    asked for; some clients ask for it with every document."""

    def __init__(self, model: str, known: Collection[str] | None, usual: str) -> None:
        super().__init__(model, known)
        self._usual = usual

    def refusal(self, options: ParseOptions) -> str | None:
        for field in PREPROCESSING:
            if getattr(options, field):
                return f"{field}: this service has no model for it; send false or leave it out"
        task = self._task(options)
        return None if self._knows(task) else f"promptLabel: {task!r} is no task of {self._words()}"

    def without_unknown(self, options: ParseOptions) -> tuple[ParseOptions, list[str]]:
        """The options with the task that the page is read by."""
        asked = options.model_fields_set
        notes = [
            f"{field} has no effect: {self._model}, which is served here, reads whole pages without a layout model."
            for field in OF_LAYOUT
            if field in asked and getattr(options, field)
        ]
        if options.useLayoutDetection:
            notes.append(
                f"useLayoutDetection: true has no effect: {self._model}, which is served here, reads whole pages; this "
                f"document is read by promptLabel {self._usual!r}."
            )
        update = {"promptLabel": self._task(options), "useLayoutDetection": False}
        return options.model_copy(update=update), notes

    def _task(self, options: ParseOptions) -> str:
        return self._usual if options.useLayoutDetection else options.promptLabel or self._usual
