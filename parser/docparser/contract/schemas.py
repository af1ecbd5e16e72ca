# SPDX-License-Identifier: Apache-2.0
"""Requests of the parsing API: names, types and meanings are those of PaddleX serving's PaddleOCR-VL contract.

Fields that are not listed are ignored, as PaddleX ignores them: clients send options of other pipelines, too. A note in
the answer names them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)

from file_types import SUPPORTED

LABELS = (
    "abstract", "algorithm", "aside_text", "chart", "content", "display_formula", "doc_title",
    "figure_title", "footer", "footer_image", "footnote", "formula_number", "header", "header_image",
    "image", "inline_formula", "number", "paragraph_title", "reference", "reference_content", "seal",
    "table", "text", "vertical_text", "vision_footnote",
)  # fmt: skip
# Bounds of what a client may send. Without them a list of wrong entries becomes an error object for each of them.
MAX_PAGES = 100_000  # of PARSER_MAX_PAGES, which bounds a document
MAX_PICTURES = 10_000  # of a page; the layout model finds 300 blocks at most
MAX_FIELDS = 1000  # of an object whose members are not known here
MAX_TEXT = 1000  # characters of a text that is kept or repeated in an answer
MAX_PART = 80  # characters of a field's name, which a client may have made up
MAX_ERRORS = 5  # of one request, and notes on its fields; more would hide the first
ALIKE = 0.8  # of two names (difflib), from which one may be meant by the other
# What pydantic puts into a location for each alternative of a union type.
UNION_TAG = re.compile(r"(constrained-|function-|dict\[|list\[|tuple\[|literal\[)")
PIXEL_KINDS = ("ocr", "table", "chart", "formula", "seal")  # of crops, whose bounds vlmExtraArgs may name
VLM_EXTRA_ARGS = {"min_pixels", "max_pixels"} | {
    f"{kind}_{end}_pixels" for kind in PIXEL_KINDS for end in ("min", "max")
}

MergeMode = Literal["large", "small", "union"]
TextLayer = Literal["off", "check", "repair", "prefer"]
Places = Literal["lines", "words", "cells"]
Probability = Annotated[float, Field(ge=0, le=1)]
# Wider than anybody needs, and narrow enough that no value makes a page cost many times what it is worth: a ratio of
# 1e308 makes every block's crop the whole page, and a temperature of that size divides all logits away.
Ratio = Annotated[float, Field(ge=0.1, le=4, allow_inf_nan=False)]
Pixels = Annotated[int, Field(gt=0, le=100_000_000)]  # of a crop, scaled up for the VLM; PaddleX's default: 2,822,400
Text = Annotated[str, Field(max_length=MAX_TEXT)]
Of = TypeVar("Of")
ByClass = Annotated[dict[int, Of], Field(max_length=len(LABELS))]
Tokens = Annotated[int, Field(gt=0, le=131_072)]  # the longest context of the models that can be served


def _as_list(schema: dict[str, Any]) -> None:
    """Both items alike, as readers of schemas know it that know no tuples."""
    schema["items"] = schema.pop("prefixItems")[0]


TwoRatios = Annotated[tuple[Ratio, Ratio], Field(json_schema_extra=_as_list)]


def log_id_of(body: object) -> str | None:
    """The logId of a body that may be wrong otherwise."""
    log_id = body.get("logId") if isinstance(body, dict) else None
    return log_id if isinstance(log_id, str) and 0 < len(log_id) <= MAX_TEXT else None


def json_error(reason: str, place: int) -> dict[str, Any]:
    """The error of a body that is no JSON, as FastAPI has it."""
    return {"type": "json_invalid", "loc": ("body", place), "msg": "JSON decode error", "ctx": {"error": reason}}


def describe_errors(errors: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(describe_error(error) for error in errors[:MAX_ERRORS])


def describe_error(error: Mapping[str, Any]) -> str:
    """One line from one of pydantic's errors: where, what, and the value if it is short."""
    if error["type"] == "json_invalid":
        place = f" at character {error['loc'][-1]}" if error["loc"][-1] else ""
        return f"body: not valid JSON ({error.get('ctx', {}).get('error', error['msg'])}{place})"
    parts = [str(part)[:MAX_PART] for part in error["loc"] if part != "body" and not UNION_TAG.match(str(part))]
    where = ".".join(parts) or "body"
    message = error["msg"].removeprefix("Value error, ")
    value = error.get("input")
    if error["type"] == "missing" or isinstance(value, (dict, list)):
        return f"{where}: {message}"
    shown = repr(value)
    return f"{where}: {message}; got {shown if len(shown) <= 80 else shown[:77] + '...'}"


def _class_ids(value: Any) -> Any:
    """Keys as numbers: JSON has string keys only, and the pipeline looks classes up by number; names work too."""
    if not isinstance(value, dict):
        return value
    if len(value) > 2 * len(LABELS):  # each by its number and by its name
        raise ValueError(f"{len(value)} classes; expected at most {len(LABELS)}")
    ids = {}
    for key, item in value.items():
        if isinstance(key, str) and key in LABELS:
            ids[LABELS.index(key)] = item
        elif str(key).isdecimal() and int(key) < len(LABELS):
            ids[int(key)] = item
        else:
            raise ValueError(f"{key!r} is no layout class; expected a number from 0 to {len(LABELS) - 1} or a label")
    return ids


def _one_or_two(value: Any) -> Any:
    return (value, value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _ratios(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _one_or_two(item) for key, item in _class_ids(value).items()}
    return _one_or_two(value)


def _known_extra_args(value: dict[str, int] | None) -> dict[str, int] | None:
    for name in value or ():
        if name not in VLM_EXTRA_ARGS:
            raise ValueError(f"{name!r} is not known; expected any of {', '.join(sorted(VLM_EXTRA_ARGS))}")
    return value


def meant(name: str, known: Iterable[str]) -> str:
    """`` (did you mean X?)`` where one of the names is much like ``name``, otherwise nothing."""
    alike = difflib.get_close_matches(name[:MAX_PART], known, 1, ALIKE)
    return f" (did you mean {alike[0]}?)" if alike else ""


def unknown_words(name: str, known: Iterable[str], kind: str) -> str:
    """Why a name that means nothing is refused."""
    return f"{name[:MAX_PART]}: no such {kind} here{meant(name, known)}; expected {', '.join(known)}"


def unknown_notes(unknown: Sequence[str], known: Iterable[str], kind: str = "option") -> list[str]:
    """What a client is told of names that mean nothing here, and so have no effect."""
    shown = [
        f"{name[:MAX_PART]}: no such {kind} here, it has no effect{meant(name, known)}."
        for name in unknown[:MAX_ERRORS]
    ]
    if more := len(unknown) - len(shown):
        shown.append(f"{more} more fields are no {kind}s here and have no effect.")
    return shown


class Lenient(BaseModel):
    """Fields that are not listed are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Parameters(BaseModel):
    """Of an address. One that is not listed is refused: only our own clients send any, and a misspelt one would have no
    effect unseen."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if unknown := [name for name in data if name not in cls.model_fields]:
            if unknown[0] in ParseOptions.model_fields:
                raise ValueError(f"{unknown[0]}: no parameter but an option; send it in the body that asks for parsing")
            raise ValueError(unknown_words(unknown[0], cls.model_fields, "parameter"))
        return data


class _LogId(BaseModel):
    logId: Text | None = Field(default=None, description="Comes back in the answer; null: the service makes one.")


class _File(_LogId):
    file: str = Field(description=f"The document in base64: {SUPPORTED}.")
    fileType: Literal[0, 1] | None = Field(default=None, description="0: PDF, 1: image; null: told from the content.")


class OutputOptions(Lenient):
    """How the answer is written."""

    _unknown: tuple[str, ...] = ()

    outputFormats: Annotated[list[Literal["docx"]], Field(max_length=10)] | None = None
    prettifyMarkdown: bool = True
    showFormulaNumber: bool = False
    returnMarkdownImages: bool = True
    mergeTables: bool = True
    relevelTitles: bool = True

    @model_validator(mode="wrap")
    @classmethod
    def _remember_unknown(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        options = handler(data)
        if isinstance(data, dict):
            names = (name for name, value in data.items() if value is not None)
            options._unknown = tuple(name for name in names if name not in cls.model_fields)
        return options

    @property
    def wants_word(self) -> bool:
        """Whether a page's entry has its Word file."""
        return "docx" in (self.outputFormats or ())

    def notes(self) -> list[str]:
        """What a client is told of fields that are no options here."""
        return unknown_notes(self._unknown, type(self).model_fields)


class ParseOptions(OutputOptions):
    """How a document is parsed, without the document. ``null`` means the service's default, everywhere."""

    useDocOrientationClassify: bool | None = None
    useDocUnwarping: bool | None = None
    useLayoutDetection: bool | None = None
    useChartRecognition: bool | None = None
    useSealRecognition: bool | None = None
    useOcrForImageBlock: bool | None = None
    layoutThreshold: Annotated[Probability | ByClass[Probability] | None, BeforeValidator(_class_ids)] = None
    layoutNms: bool | None = None
    layoutUnclipRatio: Annotated[TwoRatios | ByClass[TwoRatios] | None, BeforeValidator(_ratios)] = Field(
        default=None, description="A number, two numbers (width, height), or either of them per class."
    )
    layoutMergeBboxesMode: Annotated[MergeMode | ByClass[MergeMode] | None, BeforeValidator(_class_ids)] = None
    layoutShapeMode: Literal["rect", "quad", "poly", "auto"] | None = "auto"
    promptLabel: Literal["ocr", "formula", "table", "chart", "seal", "spotting", "document"] | None = Field(
        default=None,
        description="What the whole page is when useLayoutDetection is false, or where the VLM reads whole pages.",
    )
    formatBlockContent: bool | None = None
    mergeLayoutBlocks: bool | None = None
    markdownIgnoreLabels: Annotated[list[Text], Field(max_length=100)] | None = Field(
        default=None,
        description="Labels of blocks that the Markdown leaves out, and all formats made of the page's content; null: "
        "headers, footers, their pictures, page numbers, footnotes (footnote) and notes in the margin (aside_text).",
    )
    repetitionPenalty: Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    topP: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    minPixels: Pixels | None = None
    maxPixels: Pixels | None = None
    maxNewTokens: Tokens | None = None
    vlmExtraArgs: Annotated[
        Annotated[dict[str, Pixels], Field(max_length=MAX_FIELDS)] | None, AfterValidator(_known_extra_args)
    ] = None
    restructurePages: bool = False
    visualize: bool | None = None
    textLayer: TextLayer | None = Field(
        default=None,
        description="Use of a PDF page's own text. off: none; check: blocks say how far the VLM agrees with it; "
        "repair: letters that differ are taken from it; prefer: also, plain blocks are not read by the VLM. Text that "
        "the page does not show is ignored.",
    )

    places: Places | None = Field(
        default=None,
        description="Adds the places of lines or words of blocks, and of table cells; cells: only of cells. Found by "
        "the page's own text if textLayer asks for it and it is true, otherwise by the ink.",
    )

    @model_validator(mode="before")
    @classmethod
    def _nulls_are_defaults(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {key: value for key, value in data.items() if value is not None or key in required}

    @property
    def shape_mode(self) -> str:
        """``layoutShapeMode``; null is its default."""
        return self.layoutShapeMode or "auto"

    def named_pixels(self, kind: str, end: Literal["min", "max"]) -> tuple[str, int] | None:
        """The bound of the pixels of crops of this one of PIXEL_KINDS, with the key that names it: the nearest to the
        kind. None where the request names none."""
        args = self.vlmExtraArgs or {}
        for key, bound in (
            (f"vlmExtraArgs.{kind}_{end}_pixels", args.get(f"{kind}_{end}_pixels")),
            (f"vlmExtraArgs.{end}_pixels", args.get(f"{end}_pixels")),
            (f"{end}Pixels", self.minPixels if end == "min" else self.maxPixels),
        ):
            if bound is not None:
                return key, bound
        return None

    @model_validator(mode="after")
    def _pixels_in_order(self) -> Self:
        for kind in PIXEL_KINDS:
            least, most = self.named_pixels(kind, "min"), self.named_pixels(kind, "max")
            if least is not None and most is not None and least[1] > most[1]:
                raise ValueError(f"{least[0]} ({least[1]}) must not be greater than {most[0]} ({most[1]})")
        return self


class ParseRequest(ParseOptions, _File):
    """Body of ``POST /layout-parsing``. ``null`` means the service's default, everywhere."""


class FileOptions(ParseOptions):
    """Options of ``POST /parse``, where the service has no default of its own."""

    textLayer: TextLayer | None = "prefer"


class Page(Lenient):
    """One page of an earlier answer: its ``prunedResult`` and its ``markdown.images``."""

    prunedResult: Annotated[dict, Field(max_length=MAX_FIELDS)]
    markdownImages: Annotated[dict[str, str], Field(max_length=MAX_PICTURES)] | None = None


class RestructureRequest(OutputOptions, _LogId):
    """Body of ``POST /restructure-pages``: joins tables and titles across pages that were parsed before."""

    pages: Annotated[list[Page], FailFast(), Field(max_length=MAX_PAGES)]
    concatenatePages: bool = False
