# SPDX-License-Identifier: Apache-2.0
"""The two models that an answer comes from: whether they are there, and which weights they are."""

from __future__ import annotations

from docparser.errors import NotReady, VlmUnavailable
from docparser.pool import WorkerPool
from docparser.selftest import SelfTest
from docparser.settings import Settings
from docparser.vlm_probe import VlmProbe
from docparser.weights import Weights, find_layout_model


class Models:
    def __init__(self, settings: Settings, pool: WorkerPool) -> None:
        self._settings = settings
        self._pool = pool
        self._probe = VlmProbe(settings, lambda: pool.last_vlm_answer)
        self._selftest = SelfTest(settings)

    async def close(self) -> None:
        await self._selftest.close()
        await self._probe.close()

    async def readiness(self) -> tuple[dict, list[str]]:
        """``{layout, vlm}`` with ``ready`` and the weights of each; and what is wrong, in words, if anything is."""
        layout, vlm, trouble = self._layout(), {"model": self._settings.vlm_model_name}, []
        layout |= {"ready": self._pool.ready > 0, "workers": self._settings.workers, "workersReady": self._pool.ready}
        if not layout["ready"]:
            trouble.append(f"Layout model: {self._pool.not_ready_because.rstrip('.')}.")
        vlm |= {"url": self._settings.vlm_url, "ready": True}
        try:
            vlm |= (await self._probe.check()).as_dict()
            if untrusted := self._selftest.trouble():
                vlm["ready"] = False
                trouble.append(untrusted)
        except VlmUnavailable as exc:
            self._selftest.forget()
            vlm["ready"] = False
            trouble.append(str(exc))
        if self._selftest.enabled:
            vlm["selfTestPassed"] = self._selftest.passed
        return {"layout": layout, "vlm": vlm}, trouble

    async def in_use(self) -> dict:
        """``{layout: {model, demo}, vlm: {model, demo}}``, for results; ``demo`` is left out where it is not known."""
        vlm = self._probe.weights
        if vlm is None:
            try:
                vlm = await self._probe.check()
            except VlmUnavailable:
                vlm = Weights(self._settings.vlm_model_name, None, None)
        states = {"layout": self._layout(), "vlm": vlm.as_dict()}
        return {name: {key: state[key] for key in ("model", "demo") if key in state} for name, state in states.items()}

    def _layout(self) -> dict:
        try:
            return find_layout_model(self._settings).as_dict()
        except NotReady:
            return {}
