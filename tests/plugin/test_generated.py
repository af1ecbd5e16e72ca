# SPDX-License-Identifier: Apache-2.0
"""Generated bad requests to the server with the demo weights; those of the other families are in test_families."""

from __future__ import annotations

import pytest

from tests.fuzz.bad_chats import KINDS, chat
from tests.plugin.chat import MODEL
from tests.plugin.generated import check_generated


@pytest.mark.server
def test_generated_bad_requests(server: str):
    check_generated(server, MODEL)


def test_requests_are_the_same_for_the_same_number():
    assert [chat(number, "a") for number in range(60)] == [chat(number, "a") for number in range(60)]
    assert {chat(number, "a").kind for number in range(10)} == {kind.__name__ for kind in KINDS}
