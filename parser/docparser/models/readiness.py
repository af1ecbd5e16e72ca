# SPDX-License-Identifier: Apache-2.0
"""Whether the service can work: whether the two models are there, with which weights, and what else it needs.

The self-test of the VLM is a condition of it (PARSER_SELFTEST): golden blocks against recorded values. The comparison
itself is ``common/selftest``, run as a process: exit status 0 means that it passed, and a line that begins with
``FAIL`` or ``error:`` says why it did not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable, Collection
from typing import Any, cast

from docparser.contract.answers import ModelsInUse
from docparser.contract.service_answers import States
from docparser.errors import NotReady, VlmUnavailable
from docparser.models.served_model import ServedModel
from docparser.models.vlm_probe import ReplicaCount, VlmProbe
from docparser.parsing.pool import WorkerPool
from docparser.settings import Settings
from docparser.weights import Weights, find_layout_model
from isolation import lacking

TIMEOUT_S = 900.0  # a few lines of text, but the server may be busy, and gigabytes of weights are hashed
RETRY_S = 60.0  # an operator may have recorded values, or mended the device, meanwhile
log = logging.getLogger(__name__)
ASK_AGAIN_S = 1.0  # between two questions to a VLM that has not said yet which weights it has


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
            log.info("the self-test of the VLM passed")
        else:
            self._words = f"The self-test of the VLM did not pass ({reason.rstrip('.')})."
            log.warning(self._words)

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


class Readiness:
    def __init__(self, settings: Settings, pool: WorkerPool, model: ServedModel) -> None:
        self._settings = settings
        self._model = model
        self._pool = pool
        self._probe = VlmProbe(settings, lambda: pool.last_vlm_answer, lambda: pool.last_vlm_loss)
        self._selftest = SelfTest(settings)
        self._lacking = lacking()
        self.replicas = ReplicaCount(settings)
        self._conditions: dict[str, Callable[[], str]] = {}

    def add_condition(self, name: str, trouble: Callable[[], str]) -> None:
        """Ready only while ``trouble``, which may block, returns "". Its words are a problem, and the state is listed
        under ``name``."""
        self._conditions[name] = trouble

    def when_other(self, tell: Callable[[Collection[str]], None]) -> None:
        """``tell`` gets the names that the VLM lists where the model that is asked for is none of them."""
        self._probe.when_other = tell

    async def close(self) -> None:
        await self._selftest.close()
        await self._probe.close()

    async def check(self) -> tuple[States, list[str]]:
        """``{layout, vlm}`` with ``ready`` and the weights of each, ``isolation`` with what the kernel ``lacks`` for
        it, and the further conditions; and each problem in words, none if all is ready."""
        layout, problems = self._layout(), []
        vlm: dict[str, Any] = {"model": self._settings.vlm_model_name}
        layout |= {"ready": self._pool.ready > 0, "state": self._pool.state.name.lower()}
        layout |= {"workers": self._settings.workers, "workersReady": self._pool.ready}
        layout["engines"] = self._pool.layout_engines
        if self._settings.layout_url:  # without it the CPU goes on, so it is no condition
            away = self._pool.layout_away
            layout["server"] = {"url": self._settings.layout_url, "used": not away} | (
                {"because": away} if away else {}
            )
        if not layout["ready"]:
            who = "Workers" if self._model.recipe else "Layout model"
            problems.append(f"{who}: {self._pool.not_ready_because.rstrip('.')}.")
        vlm |= {"url": self._settings.vlm_url, "ready": True}
        try:
            vlm |= (await self._probe.check()).as_dict()
            if untrusted := self._selftest.trouble():
                vlm["ready"] = False
                problems.append(untrusted)
        except VlmUnavailable as exc:
            self._selftest.forget()
            vlm["ready"] = False
            problems.append(str(exc))
        if (replicas := await self.replicas.get()) is not None:
            vlm["replicas"] = replicas.as_dict()
            if replicas.up < self._settings.vlm_min_replicas:
                vlm["ready"] = False
                problems.append(
                    f"{replicas.up} of {replicas.configured} replicas of the VLM answer; "
                    f"VLM_MIN_REPLICAS wants {self._settings.vlm_min_replicas}."
                )
        if self._selftest.enabled:
            vlm["selfTestPassed"] = self._selftest.passed
        states: dict[str, Any] = {"layout": layout, "vlm": vlm, "isolation": {"lacks": self._lacking}}
        for name, trouble in self._conditions.items():
            words = await asyncio.to_thread(trouble)
            states[name] = {"ready": not words}
            problems += [words] if words else []
        return cast(States, states), problems

    async def check_presence(self, longest_s: float) -> None:
        """Raises VlmUnavailable if the VLM has been away for longer than that, as far as anybody looked."""
        try:
            await self._probe.check()
        except VlmUnavailable as exc:
            away_s = time.monotonic() - (self._probe.away_since or time.monotonic())
            if away_s >= longest_s:
                raise VlmUnavailable(f"The VLM server has been away for {away_s / 60:.0f} minutes. {exc}") from None

    async def vlm_is_demo(self) -> bool:
        """Whether the VLM has the demo weights, as it last said.

        A VLM that has not said anything yet is waited for, as the page's blocks would wait: by a guess the same page
        would come back otherwise after a restart. Raises VlmUnavailable after PARSER_VLM_PATIENCE_S.
        """
        began = time.monotonic()
        while (weights := self._probe.weights) is None:
            try:
                weights = await self._probe.check()
            except VlmUnavailable:
                if time.monotonic() - began >= self._settings.vlm_patience_s:
                    raise
                await asyncio.sleep(ASK_AGAIN_S)
        return bool(weights.demo)

    async def models_in_use(self) -> ModelsInUse:
        """``{layout: {model, demo}, vlm: {model, demo}}``, for results; ``demo`` is left out where it is not known.
        With a VLM that reads whole pages, ``layout.model`` is None, and ``vlm`` says how it reads."""
        vlm = self._probe.weights
        if vlm is None:
            try:
                vlm = await self._probe.check()
            except VlmUnavailable:
                vlm = Weights(self._settings.vlm_model_name, None, None)
        states = {"layout": self._layout(), "vlm": vlm.as_dict()}
        told = {name: {key: state[key] for key in ("model", "demo") if key in state} for name, state in states.items()}
        return cast(ModelsInUse, {**told, "vlm": told["vlm"] | self._model.how_it_reads()})

    def _layout(self) -> dict:
        if self._model.recipe:
            return {"model": None}
        try:
            return find_layout_model(self._settings).as_dict()
        except NotReady:
            return {}
