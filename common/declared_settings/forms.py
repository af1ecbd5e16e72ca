# SPDX-License-Identifier: Apache-2.0
"""Forms of texts among the settings: the table and the parser's fields name them, and one code checks them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """``fits`` judges a text in small letters; with ``many``, each entry of a comma-separated text. ``expected`` goes
    into the error."""

    fits: Callable[[str], bool]
    expected: str
    many: bool = False

    def misfit(self, text: str) -> str | None:
        """The text, or the first of its entries, that does not fit; None if all fits."""
        entries = [entry.strip().lower() for entry in text.split(",") if entry.strip()] if self.many else [text]
        return next((entry for entry in entries if not self.fits(entry)), None)


def matches(pattern: str) -> Callable[[str], bool]:
    """Whether all of a text matches."""
    return lambda text: re.fullmatch(pattern, text) is not None


def accepted_by(reader: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether the reader raises no ValueError."""

    def fits(text: str) -> bool:
        try:
            reader(text)
        except ValueError:
            return False
        return True

    return fits


NAME = r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?"
IPV6 = r"\[[0-9a-f:.]+\]"
MEDIA_HOST = r"[A-Za-z0-9._-]+(:\d{1,5})?"
CORES = r"\d+(-\d+)?(,\d+(-\d+)?)*"
API_ROOT = matches(r"https?://\S+")
FORMS = {
    "address": Form(
        accepted_by(lambda text: ipaddress.ip_address(re.sub(r"\[(.*:.*)\]", r"\1", text))),
        "an IP address like 127.0.0.1, 0.0.0.0 or [::]",
    ),
    "cores": Form(
        matches(rf"auto|none|{CORES}(;{CORES})*"),
        "auto, none, or one list of cores for each die, with semicolons between them, like 0-39;40-79",
    ),
    "layout device": Form(matches(r"cpu|npu(:\d+)?"), "cpu, npu, or one like npu:1"),
    "share": Form(matches(r"0?\.\d*[1-9]\d*"), "a share above 0 and below 1, like 0.8"),
    "networks": Form(accepted_by(ipaddress.ip_network), "addresses and networks like 127.0.0.1,10.2.0.0/16", many=True),
    "hosts": Form(
        matches(rf"((\*\.)?{NAME}|{IPV6})(:\d{{1,5}})?"),
        "names like hooks.example.com or *.example.org:8443, comma-separated",
        many=True,
    ),
    "media hosts": Form(
        matches(rf"\s*({MEDIA_HOST}(\s+|$))*"),
        "names or addresses with blanks between them, like images.example.org 10.0.0.7:8080",
    ),
    "host names": Form(
        matches(rf"\*|(\*\.)?{NAME}|{IPV6}"),
        "names like ocr.example.org without scheme or port, comma-separated",
        many=True,
    ),
    "origins": Form(
        matches(r"\*|https?://[^\s/,*]+"),
        "names like https://app.example.org without a path, comma-separated",
        many=True,
    ),
    "API root": Form(API_ROOT, "the server's API root, like http://127.0.0.1:8000/v1"),
    "API roots": Form(API_ROOT, "API roots like http://127.0.0.1:8000/v1, comma-separated", many=True),
    "public address": Form(matches(r"https?://[^\s?#]+"), "an address like https://ocr.example.org"),
    "layout server": Form(
        matches(r"http://[^\s/?#@]+(/[^\s?#]*)?"), "the layout server's address, like http://127.0.0.1:8001"
    ),
    "collector": Form(matches(r"https?://[^\s?#@]+"), "the collector's address, like http://collector:4318"),
    # One @ at most, before any slash: else a part of a password would be taken for a name, and shown.
    "database": Form(
        matches(r"postgres(ql)?://([^\s@/?#]+@)?[^\s@]+"),
        "an address like postgresql://user:password@host/database, with @ and / in a password as %40 and %2F",
    ),
    "bucket": Form(
        matches(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\s?#]*)?"),
        "an address like s3://bucket/prefix, with a name of 3 to 63 small letters, digits, dots and hyphens",
    ),
}
