# SPDX-License-Identifier: Apache-2.0
"""The self-test of the VLM as a condition of readiness (PARSER_SELFTEST): golden blocks against recorded values.

The comparison itself is ``common/selftest``, run as a process: exit status 0 means that it passed, and
a line that begins with ``FAIL`` or ``error:`` says why it did not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time

from docparser.settings import Settings

TIMEOUT_S = 900.0  # a few lines of text, but the server may be busy, and gigabytes of weights are hashed
RETRY_S = 60.0  # an operator may have recorded values, or mended the device, meanwhile
LOG = logging.getLogger(__name__)


class SelfTest:
    """Runs once each time the VLM comes up, and again some time after it has failed. Without PARSER_SELFTEST, never."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.vlm_url
        self._key = settings.vlm_api_key
        self._task: asyncio.Task[None] | None = None
        self._ended = float("-inf")
        self._words = ""
        self.enabled = settings.selftest
        self.passed = False

    def trouble(self) -> str | None:
        """Why the VLM that answers is not trusted, or None. Begins the test where it is due; never waits for it."""
        if not self.enabled or self.passed:
            return None
        ended = self._task is None or self._task.done()
        if ended and time.monotonic() - self._ended > RETRY_S:
            self._words = self._words or "The self-test of the VLM has not ended yet."
            self._task = asyncio.create_task(self._run())
        return self._words

    def forget(self) -> None:
        """The VLM is away: what comes up again may be another driver, image or die."""
        if self._task is not None:
            self._task.cancel()
        self._task, self._ended, self._words, self.passed = None, float("-inf"), "", False

    async def close(self) -> None:
        task = self._task
        self.forget()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        reason = await self._outcome()
        self._ended = time.monotonic()
        self.passed = reason is None
        if reason is None:
            LOG.info("the self-test of the VLM passed")
        else:
            self._words = f"The self-test of the VLM did not pass ({reason.rstrip('.')})."
            LOG.warning(self._words)

    async def _outcome(self) -> str | None:
        """None where the test passed, else the line that says why not."""
        env = {**os.environ} | ({"VLM_API_KEY": self._key} if self._key else {})
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "selftest",
                "--vlm",
                self._url,
                env=env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
        except OSError as exc:
            return f"it cannot be started: {exc}"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                output, _ = await process.communicate()
        except TimeoutError:
            return f"it took longer than {TIMEOUT_S:.0f} s"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode == 0:
            return None
        lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
        said = [line for line in lines if line.startswith(("FAIL", "error:"))]
        return (said or lines[-1:] or [f"exit status {process.returncode}"])[0]
