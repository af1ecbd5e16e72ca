# SPDX-License-Identifier: Apache-2.0
"""scripts/parse_corpus.py: runs the driver in a process of its own, and again when the cluster has lost it.

Ray ends a driver's process when the head of its cluster goes away. Finished documents are recorded with the outputs, so
the next driver continues there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tool_errors import INTERRUPTED, RESUMABLE, ServiceError, run

from . import arguments

# By default Ray reports its use to its maker, and warns about itself.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
AGAIN_S = 3.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STEADY_S = 60.0  # a driver that has run for so long had a cluster


def parse_corpus() -> int:
    """Returns the exit status: 0 if every page of every document is complete, 1 if not. Raises ServiceError, and
    KeyboardInterrupt after Ctrl-C and SIGTERM."""
    options = arguments.parse()
    # Set both handlers: a background program of a script ignores SIGINT, and the driver would inherit that.
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    lost_since = time.monotonic()
    while True:
        began = time.monotonic()
        status = drive(options)
        if status is not None:
            return status
        now = time.monotonic()
        if now - began > STEADY_S:
            lost_since = now
        where = f"the Ray cluster at {options.ray}" if options.ray else "Ray on this machine"
        if now - lost_since > options.patience_s:
            raise ServiceError(f"--ray: {where} is away for {options.patience_s:.0f} s (--patience); {RESUMABLE}")
        print(f"{where} went away; trying again", file=sys.stderr, flush=True)
        time.sleep(AGAIN_S)


def drive(options: arguments.Options) -> int | None:
    """The driver's exit status, or None if it ended without one. Raises KeyboardInterrupt once it has ended after
    Ctrl-C or SIGTERM."""
    ours, theirs = os.pipe()
    words = [sys.executable, "-m", "corpus.driver", options.as_json()]
    env = {**QUIET, **os.environ, "CORPUS_OUTCOME_FD": str(theirs)}
    interrupted = False
    with subprocess.Popen(words, pass_fds=(theirs,), env=env) as driver:
        os.close(theirs)

        def interrupt(number: int, _: object) -> None:
            nonlocal interrupted
            interrupted = True
            # Ctrl-C reaches the driver too, which ends by itself; SIGTERM does not.
            if number == signal.SIGTERM:
                driver.send_signal(signal.SIGINT)

        for number in SIGNALS:
            signal.signal(number, interrupt)
        with os.fdopen(ours) as outcome:
            said = outcome.readline()  # until all holders of the other end are gone
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler)
    status = int(said) if said.strip() else None
    if status == INTERRUPTED or (status is None and interrupted):
        raise KeyboardInterrupt
    return status


if __name__ == "__main__":
    sys.exit(run(parse_corpus, RESUMABLE))
