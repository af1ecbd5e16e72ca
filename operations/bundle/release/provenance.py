# SPDX-License-Identifier: Apache-2.0
"""Where a release's files come from, as an in-toto Statement (v1) with SLSA's provenance (v1) as its predicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bundle.origin import Origin

STATEMENT, PREDICATE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"


def statement(
    made_from: Origin, subjects: Mapping[str, str], parameters: Mapping[str, Any], began: str, ended: str
) -> dict[str, Any]:
    """`subjects` are names with a SHA-256 in hex: a file's own, and of an image that of its layers (`engine.layers`).
    `parameters` are what the caller chose; the two times are RFC 3339, in UTC."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                # Both are explained in the source itself, at that commit.
                "buildType": f"{made_from.source}#docs/decisions/0421-a-release-has-a-name.md",
                "externalParameters": {"version": made_from.version, **parameters},
                "resolvedDependencies": [
                    {
                        "uri": f"git+{made_from.source}@{made_from.revision}",
                        "digest": {"gitCommit": made_from.revision},
                    }
                ],
            },
            "runDetails": {
                "builder": {"id": f"{made_from.source}#scripts/release.sh"},
                "metadata": {"startedOn": began, "finishedOn": ended},
            },
        },
    }
