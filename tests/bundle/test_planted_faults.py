# SPDX-License-Identifier: Apache-2.0
"""The faults that workshop/planted_faults plants still have their places in the code."""

from __future__ import annotations

import pytest

from planted_faults.faults import FAULTS, Fault
from tests.support.paths import ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_place(fault: Fault):
    assert (ROOT / fault.file).read_text().count(fault.text) == 1
    assert all((ROOT / word).exists() for word in fault.tests if word.startswith("tests/"))
