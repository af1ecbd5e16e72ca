# SPDX-License-Identifier: Apache-2.0
"""The service's settings: read from the environment once, in the app factory, and passed on from there."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import AliasChoices, Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from docparser.jobs.settings import JobSettings

REPOSITORY = Path(__file__).resolve().parents[2]


def cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0))


def default_workers(cores: int) -> int:
    return min(16, max(min(2, cores), cores // 2))


def default_threads(cores: int, workers: int) -> int:
    """More threads than cores would slow all down; more than four gain little on images of 800 x 800."""
    return min(4, max(1, cores // workers))


class Settings(JobSettings, BaseSettings):
    """Every field is ``PARSER_<NAME>`` in the environment, except those with an alias, which other services share.

    Sizes are in pixels, bytes or MiB as named; times in seconds.
    """

    model_config = SettingsConfigDict(
        env_prefix="PARSER_", frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    bind: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=1, le=65535)
    log_level: str = Field("info", pattern="^(critical|error|warning|info|debug)$")
    log_format: str = Field("json", pattern="^(json|text)$")

    # The VLM server and the models.
    vlm_url: str = Field("http://127.0.0.1:8000/v1", validation_alias=AliasChoices("VLM_URL", "vlm_url"))
    vlm_model_name: str = Field("PaddleOCR-VL-0.9B", validation_alias=AliasChoices("VLM_MODEL_NAME", "vlm_model_name"))
    layout_model_dir: Path | None = Field(None, validation_alias=AliasChoices("LAYOUT_MODEL_DIR", "layout_model_dir"))
    models_dir: Path = Field(Path("models"), validation_alias=AliasChoices("MODELS_DIR", "models_dir"))
    vlm_model: str | None = Field(None, validation_alias=AliasChoices("VLM_MODEL", "vlm_model"))
    hardware: str = Field("cpu", pattern="^(cpu|ascend)$", validation_alias=AliasChoices("HARDWARE", "hardware"))
    models_config: Path = Field(
        REPOSITORY / "config" / "models.yaml", description="Tells which folder a name in VLM_MODEL means."
    )
    pipeline_config: Path = REPOSITORY / "config" / "pipeline.yaml"

    # How pages are worked on.
    workers: int = Field(
        default_factory=lambda: default_workers(cores()), ge=1, le=64,
        description="Worker processes (0.65 GB each); one page at a time has the CPU in each. Default: half the cores, "
        "but two of two, 16 at most.",
    )  # fmt: skip
    cpu_threads: int = Field(
        default_factory=lambda known: default_threads(cores(), known.get("workers", 1)), ge=1, le=64,
        description="Threads of the layout model, per worker. Default: the worker's share of the cores, 4 at most.",
    )  # fmt: skip
    mkldnn: bool = Field(True, description="oneDNN kernels for the layout model, where PaddleX allows them for it.")
    pages_in_flight: int = Field(
        24, ge=1, le=256, description="Pages that a worker has begun; all but one wait for the VLM."
    )
    max_pixels_in_flight: int = Field(
        300_000_000, ge=1, description="A worker that holds pages of more pixels begins no other."
    )
    page_timeout_s: float = Field(900.0, gt=0, description="Longest time for one page, the VLM's included.")
    step_timeout_s: float = Field(
        180.0, gt=0, description="Longest time on the CPU without a break; then the worker is replaced."
    )
    start_timeout_s: float = Field(600.0, gt=0, description="Longest time for a worker to load its models.")
    cache_dir: Path = Field(
        Path("~/.cache/docparser"), description="A writable folder for PaddleX's caches and the drawing font."
    )
    spool_dir: Path | None = Field(
        None,
        description="Where documents and large results lie meanwhile, a folder for this service only; default: temporary.",
    )

    # Calls of the VLM server.
    vlm_api_key: str = Field("", repr=False, description="Sent as a Bearer token, if the server asks for one.")
    vlm_concurrency: int = Field(1024, ge=1, description="Most crops with the VLM at once, all workers together.")
    vlm_concurrency_start: int = Field(64, ge=1, description="As many at first; then as many as the VLM takes.")
    vlm_queue_target_s: float = Field(
        5.0, gt=0, description="More crops are sent as long as the first token comes within this time."
    )
    vlm_connect_timeout_s: float = Field(3.0, gt=0)
    vlm_timeout_s: float = Field(300.0, gt=0, description="Longest wait for one crop.")
    selftest: bool = Field(
        False,
        description="Ready only after the VLM has given the values recorded for its weights (scripts/selftest.sh).",
    )
    vlm_patience_s: float = Field(5.0, ge=0, description="How long a VLM that is away is tried again, before 503.")

    # Who may ask.
    published_address: str = Field(
        "", description="Address that clients reach this service at, where it is not PARSER_BIND (containers)."
    )
    auth: str = Field("keys", pattern="^(keys|off)$", description="off: no keys, at any address.")
    api_keys: str = Field("", repr=False, description="Comma-separated sha256:<hex>; see docparser/api_keys.py.")
    api_keys_file: Path | None = Field(None, description="The same, one per line.")
    url_hosts: str = Field(
        "", description="Hosts that `file` may be a URL of, like files.example.com,*.example.org:8443. Empty: none."
    )
    url_timeout_s: float = Field(60.0, gt=0)

    # Limits of a request.
    max_body_mib: int = Field(256, ge=1)
    max_requests: int = Field(256, ge=1, description="Parsing requests at once; more are told to come back (429).")
    max_bodies_mib: int = Field(1024, ge=1, description="Their bodies together.")
    request_timeout_s: float = Field(3600.0, gt=0, description="Longest time for one request.")
    max_pages: int = Field(2000, ge=1, description="A longer document is refused, never cut.")
    max_image_pixels: int = Field(100_000_000, ge=1, description="Larger images are refused before they are decoded.")
    pdf_scale: float = Field(2.0, gt=0, le=10, description="Pixels per PDF point; 2.0 is 144 dpi, as in PaddleX.")
    max_pdf_objects: int = Field(
        200_000, ge=1, description="Objects on one PDF page; a page that has more is not rendered."
    )
    max_pdf_page_pixels: int = Field(
        40_000_000, ge=1, description="Larger PDF pages are rendered at a lower scale, to this many pixels."
    )

    # Answers.
    visualize: bool = Field(True, description="What a request's `visualize: null` means; true in PaddleX.")
    max_output_image_side: int = Field(2000, ge=16, description="Returned images are scaled down to this side.")

    @field_validator("vlm_url")
    @classmethod
    def _is_api_root(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"VLM_URL is {url!r}; expected the server's API root, like http://127.0.0.1:8000/v1")
        return url.rstrip("/")

    @field_validator("cache_dir")
    @classmethod
    def _expand(cls, path: Path) -> Path:
        return path.expanduser()


def variable(field: str) -> str:
    """The environment variable that sets ``field``; a variable's own name is returned as it is."""
    info = Settings.model_fields.get(field)
    if info is None:
        return field
    return info.validation_alias.choices[0] if info.validation_alias else f"PARSER_{field.upper()}"
