# SPDX-License-Identifier: Apache-2.0
"""Run a program without capabilities, as the containers do: `python -m tests.support.without_privileges PROGRAM ...`.

Root without them is a user like others to `ptrace` and /proc. Nobody else has any.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_CAPBSET_DROP = 24  # linux/prctl.h
LAST = 63  # numbers of capabilities beyond the kernel's last are refused, which does no harm

if __name__ == "__main__":
    libc = ctypes.CDLL(None)
    for capability in range(LAST + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
