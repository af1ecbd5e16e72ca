# SPDX-License-Identifier: Apache-2.0
"""Options that this service cannot follow: tasks that a version of the VLM was not trained to do, models that are not
there, and options of the layout model where the VLM reads whole pages."""

from __future__ import annotations

from collections.abc import Collection

from docparser.contract.schemas import ParseOptions

# What clients set for every document, whether it has such blocks or not (paddleocr-mcp and WeKnora the seals).
SWITCHES = {"useChartRecognition": "chart", "useSealRecognition": "seal"}
DOCUMENT = "document"  # a whole page as Markdown, which models with a layout model do not know as a task
# What takes models that the bundle does not have. Clients do not set these for every document.
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
    "textLayer",
    "places",
)


class Tasks:
    """The tasks that ``model`` knows; ``known`` is None where nobody says which, and then it knows all.
    ``preprocessor``: there are models that turn and flatten pages."""

    def __init__(self, model: str, known: Collection[str] | None, *, preprocessor: bool = False) -> None:
        self._model, self._known, self._preprocessor = model, known, preprocessor

    def refusal(self, options: ParseOptions) -> str | None:
        """Why a request cannot be met: it wants a model that is not there, or the task of its whole page is not known.
        None if it can."""
        for field in PREPROCESSING if not self._preprocessor else ():
            if getattr(options, field):
                return f"{field}: this service has no model for it; send false or leave it out"
        return self._unknown_task(options)

    def _unknown_task(self, options: ParseOptions) -> str | None:
        task = options.promptLabel
        if task is None or self._knows(task):
            return None
        other = "a model that reads whole pages" if task == DOCUMENT else "PaddleOCR-VL-1.5 or newer"
        return f"promptLabel: {task!r} is no task of {self._words()}. Ask a service that has {other}"

    def without_unknown(self, options: ParseOptions) -> tuple[ParseOptions, list[str]]:
        """The options with those switches off whose blocks the model cannot read, which then stay pictures; and a note
        for each."""
        off = [field for field, task in SWITCHES.items() if getattr(options, field) and not self._knows(task)]
        notes = [
            f"{field}: true has no effect, such blocks stay pictures: {SWITCHES[field]} is no task of {self._words()}."
            for field in off
        ]
        return options.model_copy(update=dict.fromkeys(off, False)), notes

    def _knows(self, task: str) -> bool:
        return task != DOCUMENT if self._known is None else task in self._known

    def _words(self) -> str:
        return f"{self._model}, which is served here and knows {', '.join(self._known or ())}"


class WholePages(Tasks):
    """A page is read by one task: ``promptLabel``, or ``usual``. As everywhere, promptLabel counts where no layout is
    asked for; some clients ask for it with every document."""

    def __init__(self, model: str, known: Collection[str] | None, usual: str) -> None:
        super().__init__(model, known)
        self._usual = usual

    def _unknown_task(self, options: ParseOptions) -> str | None:
        task = self._task(options)
        return None if self._knows(task) else f"promptLabel: {task!r} is no task of {self._words()}"

    def without_unknown(self, options: ParseOptions) -> tuple[ParseOptions, list[str]]:
        """The options with the task that the page is read by."""
        asked = options.model_fields_set
        notes = [
            f"{field} has no effect: {self._model}, which is served here, reads whole pages without a layout model."
            for field in OF_LAYOUT
            if field in asked and getattr(options, field) not in (None, False, "off")
        ]
        if options.useLayoutDetection:
            notes.append(
                f"useLayoutDetection: true has no effect: {self._model}, which is served here, reads whole pages; this "
                f"document is read by promptLabel {self._usual!r}."
            )
        update = {"promptLabel": self._task(options), "useLayoutDetection": False, "places": None}
        return options.model_copy(update=update), notes

    def _task(self, options: ParseOptions) -> str:
        return self._usual if options.useLayoutDetection else options.promptLabel or self._usual
