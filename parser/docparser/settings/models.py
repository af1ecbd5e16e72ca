# SPDX-License-Identifier: Apache-2.0
"""Settings of the VLM server, of calls to it, and of both models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, field_validator

from docparser.settings.base import REPOSITORY, SettingsGroup
from served_weights.catalog import DEFAULT_FILE, Model
from served_weights.settings import WeightSettings
from served_weights.vlm import named
from tool_errors import UsageError

VLM_CONNECT_TIMEOUT_S = 3.0


class ModelSettings(SettingsGroup):
    vlm_url: str = Field(
        default="http://127.0.0.1:8000/v1",
        json_schema_extra={"format": "API root"},
        validation_alias=AliasChoices("VLM_URL", "vlm_url"),
        description="API root of the VLM server; fixed in containers.",
    )
    vlm_further_urls: str = Field(
        default="",
        json_schema_extra={"format": "API roots"},
        validation_alias=AliasChoices("VLM_FURTHER_URLS", "vlm_further_urls"),
        description="API roots of more VLM servers with the same weights, with commas between, if they have no "
        "balancer (docs/corpus.md).",
    )
    vlm_min_replicas: int = Field(
        default=1,
        ge=1,
        validation_alias=AliasChoices("VLM_MIN_REPLICAS", "vlm_min_replicas"),
        description="`/health/ready` is 503 while fewer replicas of the VLM answer, where its container says how many "
        "there are.",
    )
    layout_model_dir: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("LAYOUT_MODEL_DIR", "layout_model_dir"),
        description="Folder of the layout model; default: the one that belongs to the VLM.",
    )
    layout_engine: str = Field(
        default="auto",
        pattern="^(auto|openvino|paddle)$",
        validation_alias=AliasChoices("LAYOUT_ENGINE", "layout_engine"),
        description="What runs the layout model: `openvino` (a third of the processor time), `paddle`, or `auto`: "
        "OpenVINO, and Paddle for a model that OpenVINO cannot run. The first start with a model makes "
        "its graph, compares it with Paddle (18 s of processor time, 1.8 GiB of memory) and keeps it in "
        "PARSER_CACHE_DIR; `/health/ready` tells the engine.",
    )
    layout_url: str = Field(
        default="",
        json_schema_extra={"format": "layout server"},
        validation_alias=AliasChoices("LAYOUT_URL", "layout_url"),
        description="Where the parser asks the layout server: `http://vlm:8001` in containers; local mode sets it "
        "itself. Empty, or while it is away: LAYOUT_ENGINE.",
    )
    layout_timeout_s: float = Field(
        default=10.0,
        gt=0,
        le=15,  # a page that waits hears of no cancel, and the scheduler takes it for stuck (CANCEL_GRACE_S)
        description="Longest wait for the layout server, then the CPU finds a page's layout.",
    )
    models_dir: Path = Field(
        default=Path("models"),
        validation_alias=AliasChoices("MODELS_DIR", "models_dir"),
        description="Folder of the weights.",
    )
    vlm_model: str | None = Field(
        default=None,
        validation_alias=AliasChoices("VLM_MODEL", "vlm_model"),
        description="A name of models.yaml, or a folder under MODELS_DIR.",
    )
    hardware: str = Field(
        default="cpu",
        pattern="^(cpu|ascend)$",
        validation_alias=AliasChoices("HARDWARE", "hardware"),
        description="Demo weights are used on cpu only.",
    )
    models_config: Path = Field(
        default=DEFAULT_FILE,
        validation_alias=AliasChoices("MODELS_CONFIG", "models_config"),
        description="The models and their arguments.",
    )
    vlm_model_name: str = Field(
        default_factory=lambda known: _served_name(known),
        validation_alias=AliasChoices("VLM_MODEL_NAME", "vlm_model_name"),
        description="The VLM's name at its server; default: as models.yaml serves VLM_MODEL.",
    )
    strict_model: bool = Field(
        default=False,
        description="1: jobs that ask for another version than the served one get 400; 0: the served version reads "
        "them and the answer names it (docs/weights.md#versions-of-paddleocr-vl).",
    )
    pipeline_config: Path | None = Field(
        default=None, description="PaddleX's pipeline; default: the file that models.yaml names for VLM_MODEL."
    )

    # Calls of the VLM server.
    vlm_api_key: str = Field(default="", repr=False, description="Sent as a Bearer token, if the server asks for one.")
    vlm_concurrency: int = Field(
        default=2048,
        ge=1,
        description="Most crops with the VLM at once, all workers together: 128 (`max-num-seqs`) for each of 16 dies.",
    )
    vlm_concurrency_start: int = Field(
        default=8,
        ge=1,
        description="The parser begins with this many crops at once, and with at least 4 for each worker. While "
        "answers come in time, it doubles the number after each round.",
    )
    vlm_queue_target_s: float = Field(
        default=5.0, gt=0, description="More crops are sent as long as the first token comes within this time."
    )
    vlm_timeout_s: float = Field(
        default=300.0,
        gt=0,
        description="Longest wait for one crop; a page that is read whole has PARSER_PAGE_TIMEOUT_S.",
    )
    confidence: bool = Field(
        default=False,
        description="1: answers say how sure the VLM was of each block (docs/api.md#confidence). On CPU it takes 7 % "
        "of the throughput (docs/benchmarks.md#confidence).",
    )
    doubtful_below: float = Field(
        default=0.9, ge=0, le=1, description="Blocks with a lower confidence are marked as doubtful; 0 marks none."
    )
    small_print: str = Field(
        default="auto",
        pattern="^(auto|on|off)$",
        description="`on`: blocks of text are read in bands of a few lines, and tables by their cells, for a VLM that "
        "loses its place in long print; `off`: a block is one request; `auto`: on for the demo weights "
        "(docs/decisions/0304-small-print-for-the-demo.md).",
    )
    line_pixels: int = Field(
        default=0,
        ge=0,
        le=96,
        description="Before a crop of text or a table is sent, it is scaled until its lines are so many pixels high, "
        "from ascenders to descenders, if it then has fewer pixels: faster pages, above all on a CPU. 24 is a good "
        "first choice; `0` sends crops as PaddleX does (docs/install.md#fewer-pixels).",
    )
    text_layer: str = Field(
        default="auto",
        pattern="^(auto|off|check|repair|prefer)$",
        description="Use of a PDF page's own text if a request does not say it (`textLayer`, "
        "docs/api.md#text-of-the-page-itself); `auto`: `prefer` for `/parse` and with the demo weights, otherwise "
        "`off`.",
    )
    selftest: bool = Field(
        default=False,
        description="1: ready only after the VLM gave the values recorded for its weights (docs/check.md#does-it-"
        "compute-what-it-should).",
    )
    vlm_patience_s: float = Field(
        default=5.0, ge=0, description="How long the parser tries a VLM that is away, before 503."
    )

    @field_validator("vlm_url", "vlm_further_urls")
    @classmethod
    def _without_slashes_at_the_end(cls, urls: str) -> str:
        return ",".join(url.strip().rstrip("/") for url in urls.split(",") if url.strip())

    @field_validator("models_config")
    @classmethod
    def _as_the_launcher_reads_it(cls, path: Path) -> Path:
        return REPOSITORY / path

    @property
    def vlm_urls(self) -> tuple[str, ...]:
        """Of all VLM servers, each once."""
        return tuple(dict.fromkeys((self.vlm_url, *filter(None, self.vlm_further_urls.split(",")))))


def model_of(known: dict[str, Any]) -> Model | None:
    """The model that the fields so far lead to. None where one of them is wrong, which is said when the weights are
    looked for."""
    fields = ("models_dir", "hardware", "vlm_model", "models_config")
    try:
        return named(WeightSettings(**{name: known[name] for name in fields}))[0]
    except (KeyError, UsageError):
        return None


def _served_name(known: dict[str, Any]) -> str:
    """The name that the launcher gives the model."""
    model = model_of(known)
    return model.served_name if model else "PaddleOCR-VL-0.9B"
