# SPDX-License-Identifier: Apache-2.0
"""The harness finds what it must: planted errors, loops and hunger for memory; and makes inputs small."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path

from tests.fuzz.verdict import Broken, judge, signature, smaller
from tests.support.paths import ROOT


def fails_on_secret(data: bytes) -> None:
    if b"secret" in data:
        raise KeyError("planted")


def backtracks(data: bytes) -> None:
    re.fullmatch(r"(a+)+b", data.decode("latin-1"))


def swallows(data: bytes) -> None:
    """A loop whose `except Exception` would swallow an ordinary exception."""
    while True:
        try:
            zlib.crc32(data * 1000)
        except Exception:
            continue


def test_an_error_is_found_and_its_input_made_small():
    data = b"x" * 300 + b"secret" + b"y" * 300
    found = judge(fails_on_secret, data)
    assert found is not None and found.signature == "KeyError in tests/fuzz/test_verdict.py:fails_on_secret"
    assert "planted" in found.report
    assert smaller(fails_on_secret, data, found.signature) == b"secret"
    assert judge(fails_on_secret, b"nothing") is None


def test_a_loop_is_ended_by_processor_time():
    for target, data in ((backtracks, b"a" * 60), (swallows, b"x")):
        found = judge(target, data, cpu_seconds=0.3)
        assert found is not None and found.signature.startswith("TooSlow in tests/fuzz/test_verdict.py")


def test_two_properties_of_one_target_are_two_findings():
    signatures = {signature(Broken(words)) for words in ("one", "another")}
    assert len(signatures) == 2
    assert signature(RecursionError()) == "RecursionError"


def test_memory_is_limited(tmp_path: Path):
    code = (
        "from tests.fuzz.verdict import judge, limit_memory\n"
        "limit_memory(1 << 28)\n"
        "print(judge(lambda data: bytearray(1 << 29), b'').signature.split()[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "MemoryError"
