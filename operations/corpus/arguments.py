# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/parse_corpus.py; Python's standard library only, so that --help works everywhere."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Any

import declared_settings
from batch.arguments import chosen_formats, request_options
from bundle.paths import VALUES
from bundle.ports import reachable

FORMATS = ("md", "json", "parquet", "xlsx", "docx", "chunks")
EMBEDDED = ""


@dataclasses.dataclass(frozen=True)
class Options:
    """``ray`` is the address of a cluster's head, or "" for Ray on this machine with ``cpus`` cores (0: all).
    ``engines``: VLM servers that the run starts itself, one for each NPU. ``threads`` are those of the layout model in
    one reader."""

    source: str
    out: str
    ray: str
    vlms: tuple[str, ...]
    engines: int
    formats: tuple[str, ...]
    request: dict[str, Any]
    pages_per_part: int
    patience_s: float
    retry_failed: bool
    cpus: int
    threads: int
    dashboard: bool

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Options:
        fields = json.loads(text)
        return cls(**{**fields, "vlms": tuple(fields["vlms"]), "formats": tuple(fields["formats"])})


def parse(words: list[str] | None = None) -> Options:
    """argparse exits with status 2 for wrong options."""
    parser = argparse.ArgumentParser(
        prog="scripts/parse_corpus.py",
        description="Parse all documents below a folder or an S3 prefix on Ray. Run it again to go on.",
    )
    parser.add_argument("source", metavar="INPUT", help="a folder that all nodes see, or s3://bucket/prefix")
    parser.add_argument(
        "--out", metavar="PLACE", required=True, help="a folder that all nodes see, or s3://bucket/prefix"
    )
    parser.add_argument(
        "--ray", metavar="ADDRESS", default=EMBEDDED, help="a cluster's head, host:port (default: Ray on this machine)"
    )
    parser.add_argument(
        "--vlm-url",
        metavar="URL",
        action="append",
        dest="vlms",
        default=[],
        help="a VLM server's API root; several times for several servers, the server with the fewest calls in work "
        "gets the next block (default: VLM_URL with VLM_FURTHER_URLS, or this bundle's)",
    )
    parser.add_argument(
        "--engines",
        metavar="N",
        type=whole_number,
        default=0,
        help="start N VLM servers here, each on an NPU of the cluster",
    )
    parser.add_argument(
        "--formats",
        metavar="LIST",
        default="md,json,parquet",
        help=f"what to write, of {','.join(FORMATS)} (default md,json,parquet)",
    )
    parser.add_argument(
        "--options",
        metavar="JSON",
        dest="request",
        default="{}",
        help="fields of each page's request, as in scripts/parse_folder.py",
    )
    parser.add_argument(
        "--pages-per-part",
        metavar="N",
        type=positive_number,
        default=16,
        help="a longer document is read in parts, by several processes (default 16)",
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        dest="patience_s",
        type=float,
        default=600,
        help="how long the cluster, a bucket or all VLM servers may be away (default 600)",
    )
    parser.add_argument(
        "--retry-failed",
        action="store_true",
        help="parse documents again that were set aside, or of which a page is missing or incomplete",
    )
    parser.add_argument(
        "--cpus",
        metavar="N",
        type=whole_number,
        default=0,
        help="cores of Ray on this machine, each with a reader (default: all, but one for each 1.5 GiB at most)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=positive_number,
        default=1,
        help="of the layout model, in each reader (default 1)",
    )
    parser.add_argument("--dashboard", action="store_true", help="Ray's dashboard, for Ray on this machine")
    chosen = parser.parse_args(words)
    vlms = tuple(dict.fromkeys(url.rstrip("/") for url in chosen.vlms))
    for url in vlms:
        if not url.startswith(("http://", "https://")):
            parser.error(f"--vlm-url {url}: expected a VLM server's API root like http://127.0.0.1:8000/v1")
    if not vlms and not chosen.engines:
        host, port = (declared_settings.text(VALUES, name) for name in ("VLM_HOST", "VLM_PORT"))
        own = VALUES.get("VLM_URL") or f"http://{reachable(host)}:{port}/v1"
        further = (VALUES.get("VLM_FURTHER_URLS") or "").split(",")
        vlms = (own, *(url.strip() for url in further if url.strip()))
    formats = chosen_formats(parser, chosen.formats, FORMATS) or ("json",)
    request = request_options(parser, chosen.request)
    if request.get("restructurePages"):
        parser.error("--options: restructurePages is of a whole document; tables over pages are joined without it")
    return Options(**{**vars(chosen), "vlms": vlms, "formats": formats, "request": request})


def whole_number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text}: expected 0 or more")
    return number


def positive_number(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected at least 1")
    return number
