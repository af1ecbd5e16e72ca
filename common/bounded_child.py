# SPDX-License-Identifier: Apache-2.0
"""How a child process limits itself at its start, and does not outlive its parent. Linux."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38  # linux/prctl.h
LOOK_S = 1.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Names of an environment that a child gets, and beginnings of names. No setting of ours and no key is among them.
KEPT = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "HF_HUB_OFFLINE")
KEPT_BEGINNINGS = ("LC_", "PYTHON", "OMP_", "KMP_", "OPENBLAS_", "OPENCV_", "MALLOC_", "FLAGS_", "PADDLE_PDX_")


def environment(**more: str) -> dict[str, str]:
    """The environment of a child: the variables that the lists above keep, the path of this process's modules, and
    ``more``."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)}
    return {**kept, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry), **more}


def cpu_s(pid: int) -> float:
    """Seconds of CPU time that a process has used so far. Raises OSError if it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S  # utime, stime: proc(5)


def end_with_parent(parent: int, one_thread: bool = False) -> None:
    """End this process, even in the middle of its work, when ``parent`` ends or is killed.

    ``one_thread``: the parent has one thread only. Then the kernel ends this process at once. If the parent has
    several, the kernel would watch only the thread that started this process, so a thread looks every second instead.
    """
    if one_thread:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call
            os._exit(1)
        return

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def confine(oom_score: int) -> None:
    """Write no core file, and gain no privileges by starting programs. When memory runs out, the kernel first ends
    processes with a high ``oom_score`` (up to 1000)."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with contextlib.suppress(OSError):  # no /proc, or a sandbox that forbids it
        Path("/proc/self/oom_score_adj").write_text(str(oom_score))


def bound(kind: int, value: int, final: bool = False) -> None:
    """Lower one of ``resource.RLIMIT_*`` to ``value``, unless its bound is lower already. ``final``: it cannot be
    raised again."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value if final else hard))


def bound_cpu(seconds: float) -> None:
    """SIGXCPU ends this process when it has used ``seconds`` more of CPU time, rounded up to whole ones."""
    bound(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds))
