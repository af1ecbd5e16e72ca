# SPDX-License-Identifier: Apache-2.0
"""What every answer of the parser must be."""

from __future__ import annotations

from typing import Any

# The service has no room, or its VLM is away.
ALLOWED = (503, 507)


def check_answer(response: Any) -> None:
    """Fails for a 5xx that is not allowed, and for an error without its code in the body."""
    status = response.status_code
    assert status < 500 or status in ALLOWED, f"{status} {response.text[:300]}"
    if status >= 400:
        assert response.json()["errorCode"] == status
