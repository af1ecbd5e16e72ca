# SPDX-License-Identifier: Apache-2.0
"""A port for a server that binds it a minute later: nothing else may get it in between."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

import free_ports
from free_ports import PORTS, free_port
from tests.support.paths import ROOT
from tests.support.tree import tracked

# Claims the only port of its range, says so, and holds it until its standard input ends.
HOLDER = """
import sys, free_ports
free_ports.PORTS = range({0}, {0} + 1)
print(free_ports.free_port(), flush=True)
sys.stdin.read()
"""


def test_connections_of_the_system_do_not_get_it() -> None:
    assert PORTS.stop <= 32768  # where Linux' own begin (ip_local_port_range), unless a site widened them
    assert free_port() in PORTS


def test_nobody_gets_one_that_is_given_out_or_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    one, used = free_port(), free_port()
    monkeypatch.setattr(free_ports, "PORTS", range(one, one + 1))
    with pytest.raises(OSError, match=f"no port from {one} to {one} is free"):
        free_port()  # this process has it already

    monkeypatch.setattr(free_ports, "PORTS", range(used, used + 1))
    free_ports._claims.pop().close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", used))  # by somebody who did not ask
        with pytest.raises(OSError, match="no port"):
            free_port()
    assert free_port() == used


def test_another_process_keeps_it_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    one = free_port()
    free_ports._claims.pop().close()
    monkeypatch.setattr(free_ports, "PORTS", range(one, one + 1))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(one)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdout.readline() == f"{one}\n"
    with pytest.raises(OSError, match="no port"):
        free_port()
    holder.communicate(timeout=30)
    assert free_port() == one


def test_ports_for_later_come_from_here() -> None:
    """Who binds port 0 only to learn its number has a port that a connection may take before the server is there."""
    probe = re.compile(r"bind\(\(.*, 0\)\)\n.*getsockname\(\)\[1\]\n")
    found = [str(path) for path in tracked() if probe.search((ROOT / path).read_text("utf-8"))]
    assert not found, "free_ports.free_port() gives a port that stays free"
