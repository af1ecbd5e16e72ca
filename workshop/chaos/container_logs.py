# SPDX-License-Identifier: Apache-2.0
"""What the containers' logs say of the run: what the proxy did, and what the parser calls an error."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from chaos.bundle_project import Bundle


def said(bundle: Bundle, service: str) -> Iterator[Mapping[str, object]]:
    """The lines of a container's log that are JSON objects."""
    for line in bundle.docker("logs", bundle.container(service), check=False).splitlines():
        with contextlib.suppress(ValueError):
            words = json.loads(line)
            if isinstance(words, Mapping):
                yield words


def treated(bundle: Bundle) -> Counter[str]:
    """How many requests the proxy treated, by mode."""
    return Counter(str(words["mode"]) for words in said(bundle, "proxy") if "mode" in words)


def errors(bundle: Bundle) -> Counter[str]:
    """What the parser's log calls an error, without the numbers that differ from line to line."""
    found: Counter[str] = Counter()
    for words in said(bundle, "parser"):
        if words.get("level") in ("error", "critical"):
            cause = str(words.get("exception", "")).strip().rsplit("\n", 1)[-1]
            text = f"{words.get('logger')}: {words.get('message')} {cause}"
            found[re.sub(r"[0-9a-f-]{8,}|\d+", "N", text)[:160].strip()] += 1
    return found
