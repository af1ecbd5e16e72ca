# SPDX-License-Identifier: Apache-2.0
"""The service's settings. The app factory reads them from the environment once and passes them on."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from served_weights.settings import WeightSettings
from served_weights.vlm import named
from tool_errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[2]


def cores() -> int:
    """The number of cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def default_workers(cores: int) -> int:
    return min(16, max(min(2, cores), cores // 2))


def default_threads(cores: int, workers: int) -> int:
    """More threads than cores would slow all pages down; more than four gain little on images of 800 x 800."""
    return min(4, max(1, cores // workers))


class Settings(BaseSettings):
    """Every field is ``PARSER_<NAME>`` in the environment, except those with an alias, which other services share.

    Sizes are in pixels, bytes or MiB as named; times in seconds.
    """

    model_config = SettingsConfigDict(
        env_prefix="PARSER_", frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    bind: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=1, le=65535)
    log_level: str = Field(default="info", pattern="^(critical|error|warning|info|debug)$")
    log_format: str = Field(default="json", pattern="^(json|text)$")

    # The VLM server and the models.
    vlm_url: str = Field(default="http://127.0.0.1:8000/v1", validation_alias=AliasChoices("VLM_URL", "vlm_url"))
    vlm_min_replicas: int = Field(
        default=1,
        ge=1,
        validation_alias=AliasChoices("VLM_MIN_REPLICAS", "vlm_min_replicas"),
        description="Ready only while so many replicas of the VLM answer, where its container says how many there are.",
    )
    layout_model_dir: Path | None = Field(
        default=None, validation_alias=AliasChoices("LAYOUT_MODEL_DIR", "layout_model_dir")
    )
    layout_engine: str = Field(
        default="auto",
        pattern="^(auto|openvino|paddle)$",
        validation_alias=AliasChoices("LAYOUT_ENGINE", "layout_engine"),
        description="What runs the layout model. auto: OpenVINO, or Paddle for a model that OpenVINO cannot run.",
    )
    models_dir: Path = Field(default=Path("models"), validation_alias=AliasChoices("MODELS_DIR", "models_dir"))
    vlm_model: str | None = Field(default=None, validation_alias=AliasChoices("VLM_MODEL", "vlm_model"))
    hardware: str = Field(
        default="cpu", pattern="^(cpu|ascend)$", validation_alias=AliasChoices("HARDWARE", "hardware")
    )
    models_config: Path = Field(
        default=REPOSITORY / "config" / "models.yaml", description="Tells which folder a name in VLM_MODEL means."
    )
    vlm_model_name: str = Field(
        default_factory=lambda known: _served_name(known),
        validation_alias=AliasChoices("VLM_MODEL_NAME", "vlm_model_name"),
        description="The VLM's name at its server; default: as models.yaml serves VLM_MODEL.",
    )
    strict_model: bool = Field(
        default=False, description="Jobs that ask for another version than the served one are refused, not noted."
    )
    pipeline_config: Path | None = Field(
        default=None, description="PaddleX's pipeline; default: the file that models.yaml names for VLM_MODEL."
    )

    # How pages are worked on.
    workers: int = Field(
        default_factory=lambda: default_workers(cores()),
        ge=1,
        le=64,
        description="Worker processes (0.65 GB each); one page at a time has the CPU in each. Default: half the cores, "
        "but two of two, 16 at most.",
    )
    cpu_threads: int = Field(
        default_factory=lambda known: default_threads(cores(), known.get("workers", 1)),
        ge=1,
        le=64,
        description="Threads of the layout model, per worker. Default: the worker's share of the cores, 4 at most.",
    )
    mkldnn: bool = Field(
        default=True, description="oneDNN kernels for the layout model, where PaddleX allows them for it."
    )
    pages_in_flight: int = Field(
        default=24, ge=1, le=256, description="Pages that a worker has begun; all but one wait for the VLM."
    )
    max_pixels_in_flight: int = Field(
        default=300_000_000, ge=1, description="A worker that holds pages of more pixels begins no other."
    )
    page_timeout_s: float = Field(default=900.0, gt=0, description="Longest time for one page, the VLM's included.")
    render_timeout_s: float = Field(
        default=20.0, gt=0, le=3600, description="Most CPU time for making pixels of one page, or opening a document."
    )
    render_memory_mib: int = Field(
        default=2048, ge=256, description="Most memory for it; 1,300 are enough for an image of 100 million pixels."
    )
    step_timeout_s: float = Field(
        default=180.0, gt=0, description="Longest time on the CPU without a break; then the worker is replaced."
    )
    start_timeout_s: float = Field(default=600.0, gt=0, description="Longest time for a worker to load its models.")
    cache_dir: Path = Field(
        default=Path("~/.cache/docparser"),
        description="A writable folder: the layout model's graph, PaddleX's caches, the drawing font.",
    )
    spool_dir: Path | None = Field(
        default=None,
        description="Folder for documents and large results at work, used by this service only; default: temporary.",
    )

    # Calls of the VLM server.
    vlm_api_key: str = Field(default="", repr=False, description="Sent as a Bearer token, if the server asks for one.")
    vlm_concurrency: int = Field(
        default=1024, ge=1, description="Most crops with the VLM at once, all workers together."
    )
    vlm_concurrency_start: int = Field(default=64, ge=1, description="As many at first; then as many as the VLM takes.")
    vlm_queue_target_s: float = Field(
        default=5.0, gt=0, description="More crops are sent as long as the first token comes within this time."
    )
    vlm_connect_timeout_s: float = Field(default=3.0, gt=0)
    vlm_timeout_s: float = Field(default=300.0, gt=0, description="Longest wait for one crop.")
    selftest: bool = Field(
        default=False,
        description="Ready only after the VLM has given the values recorded for its weights (scripts/selftest.sh).",
    )
    vlm_patience_s: float = Field(
        default=5.0, ge=0, description="How long a VLM that is away is tried again, before 503."
    )

    # Who may ask.
    published_address: str = Field(
        default="", description="Address that clients reach this service at, where it is not PARSER_BIND (containers)."
    )
    auth: str = Field(default="keys", pattern="^(keys|off)$", description="off: no keys, at any address.")
    api_keys: str = Field(
        default="",
        repr=False,
        description="Comma-separated entries, sha256:<hex> and attributes (docs/api.md). `python -m docparser.api_keys "
        "make` makes a key, and keeps its entry in PARSER_DATA_DIR/api_keys, where it is found without this setting.",
    )
    api_keys_file: Path | None = Field(default=None, description="The same, one per line; changes count at once.")
    allowed_hosts: str = Field(
        default="",
        description="Names under which this service may be asked, like ocr.example.org,*.lan; `*`: any. Numeric "
        "addresses, this machine's names and PUBLIC_URL's always may.",
    )
    allowed_origins: str = Field(
        default="",
        description="Origins of web pages that may call this service, like https://app.example.org. Its own may.",
    )
    audit_log: str = Field(
        default="log", description="log: lines of the service's log; stdout; off; or the path of a file."
    )
    url_hosts: str = Field(
        default="",
        description="Hosts that `file` may be a URL of, like files.example.com,*.example.org:8443. Empty: none.",
    )
    url_timeout_s: float = Field(default=60.0, gt=0)

    # Connections. One client (an address, or a key where it is known) has at most half of what all have together.
    trusted_proxies: str = Field(
        default="",
        description="Addresses or networks of proxies, like 127.0.0.1,10.2.0.0/16, whose X-Forwarded-For says who the "
        "client is. Others' counts for nothing.",
    )
    max_connections: int = Field(default=1024, ge=2, description="Open connections; more are answered 503 or 429.")
    header_timeout_s: float = Field(
        default=15.0, gt=0, le=3600, description="Longest time for a request's head, and until a first byte comes."
    )
    keep_alive_s: float = Field(default=30.0, ge=0, le=3600, description="How long a connection waits for a request.")
    stall_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="The time over which a body or an answer must move at the least rate."
    )
    least_rate: int = Field(
        default=1024, ge=1, description="Bytes a second that a client must send of a body, and take of an answer."
    )
    max_event_streams: int = Field(default=256, ge=1, description="Clients that follow a job's events; more get 429.")

    # Limits of a request.
    max_body_mib: int = Field(default=256, ge=1)
    max_requests: int = Field(
        default=256, ge=1, description="Parsing requests at once; more are told to come back (429)."
    )
    max_bodies_mib: int = Field(
        default=1024,
        ge=1,
        description="Bodies of all requests together, as they arrive, and what their JSON takes in memory.",
    )
    request_timeout_s: float = Field(
        default=3600.0, gt=0, description="Longest time for one request, and for its body to arrive."
    )
    max_pages: int = Field(default=2000, ge=1, description="A longer document is refused, never cut.")
    max_image_pixels: int = Field(
        default=100_000_000, ge=1, description="Larger images are refused before they are decoded."
    )
    pdf_scale: float = Field(
        default=2.0, gt=0, le=10, description="Pixels per PDF point; 2.0 is 144 dpi, as in PaddleX."
    )
    max_pdf_objects: int = Field(
        default=200_000, ge=1, description="Objects on one PDF page; a page that has more is not rendered."
    )
    max_pdf_page_pixels: int = Field(
        default=40_000_000, ge=1, description="Larger PDF pages are rendered at a lower scale, to this many pixels."
    )

    # Child processes, in which texts are read, pages joined and results converted.
    child_cpu_s: float = Field(
        default=30.0,
        gt=0,
        description="Most processor time of one such task; the same again for every 100 pages.",
    )
    child_wall_s: float = Field(
        default=120.0, gt=0, description="Longest time of one such task; the same again for every 100 pages."
    )
    child_memory_mib: int = Field(default=768, ge=32, description="Most memory of one such task.")
    child_output_mib: int = Field(default=2048, ge=1, description="Most bytes that one such task may write.")
    child_tasks: int = Field(
        default=12, ge=1, le=64, description="Conversions at once; those that take over a second have low priority."
    )

    # Jobs.
    data_dir: Path = Field(
        default=Path(".run/data"),
        description="Jobs, their documents and results. On a local disk; any number of parsers may share it.",
    )
    public_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s?#]+)?$",
        validation_alias=AliasChoices("PUBLIC_URL", "public_url"),
        description="Address of this service for its clients, where a proxy is in front; default: as the request says.",
    )
    job_keep_hours: float = Field(default=72.0, gt=0, description="How long an ended job is kept.")
    job_keep_gib: float = Field(
        default=50.0, gt=0, description="Size of all jobs together; beyond it the oldest ended jobs are removed."
    )
    result_url_hours: float = Field(default=24.0, gt=0, description="How long the address of a result is valid.")
    max_queued_jobs: int = Field(default=5000, ge=1, description="Jobs that wait or run; beyond that 429.")
    max_queued_pages: int = Field(default=20000, ge=1, description="Pages of jobs that wait; beyond that 429.")
    min_free_mib: int = Field(
        default=512, ge=0, description="Room that must stay free in PARSER_DATA_DIR for new work."
    )

    # Answers.
    visualize: bool = Field(default=True, description="What a request's `visualize: null` means; true in PaddleX.")
    max_output_image_side: int = Field(default=2000, ge=16, description="Returned images are scaled down to this side.")

    @field_validator("vlm_url")
    @classmethod
    def _is_api_root(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"VLM_URL is {url!r}; expected the server's API root, like http://127.0.0.1:8000/v1")
        return url.rstrip("/")

    @field_validator("allowed_hosts", "allowed_origins")
    @classmethod
    def _are_names(cls, listed: str, info: ValidationInfo) -> str:
        host = r"(\*|(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])"
        form, example = {
            "allowed_hosts": (host, "ocr.example.org without scheme or port"),
            "allowed_origins": (r"\*|https?://[^\s/,*]+", "https://app.example.org without a path"),
        }[str(info.field_name)]
        for name in _listed(listed):
            if not re.fullmatch(form, name):
                raise ValueError(f"{name!r} is none; expected names like {example}, divided by commas")
        return listed

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, listed: str) -> str:
        for entry in _listed(listed):
            try:
                ipaddress.ip_network(entry)
            except ValueError as exc:
                raise ValueError(f"{exc}; expected addresses and networks like 127.0.0.1,10.2.0.0/16") from None
        return listed

    @property
    def trusted_proxy_list(self) -> tuple[str, ...]:
        return _listed(self.trusted_proxies)

    @property
    def allowed_host_list(self) -> tuple[str, ...]:
        return _listed(self.allowed_hosts)

    @property
    def allowed_origin_list(self) -> tuple[str, ...]:
        return _listed(self.allowed_origins)

    @field_validator("cache_dir")
    @classmethod
    def _expand(cls, path: Path) -> Path:
        return path.expanduser()


def _served_name(known: dict[str, Any]) -> str:
    """The name that the launcher gives the model that the fields so far lead to; what is wrong with them is said when
    the weights are looked for."""
    fields = ("models_dir", "hardware", "vlm_model", "models_config")
    try:
        return named(WeightSettings(**{name: known[name] for name in fields}))[0].served_name
    except (KeyError, UsageError):
        return "PaddleOCR-VL-0.9B"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def variable(field: str) -> str:
    """The environment variable that sets ``field``; the name of a variable is returned unchanged."""
    info = Settings.model_fields.get(field)
    if info is None:
        return field
    alias = info.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else f"PARSER_{field.upper()}"
