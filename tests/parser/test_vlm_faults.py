# SPDX-License-Identifier: Apache-2.0
"""The VLM server away, broken, slow, or unwilling: what a client is told, and how soon."""

from __future__ import annotations

import time

import pytest
import samples
from fake_vlm import default_answer, prompt_of


@pytest.fixture
def own_vlm(service, vlm):
    """A way to take the service's VLM down and bring it back on the same port."""

    class Switch:
        def down(self):
            vlm.close()

        def up(self):
            vlm.__init__(vlm.port)

    switch = Switch()
    yield switch
    if vlm.server.socket.fileno() == -1:
        switch.up()


def test_a_vlm_that_is_away_is_503_at_once(service, own_vlm):
    own_vlm.down()
    started = time.monotonic()
    response = service.parse(samples.image())
    assert time.monotonic() - started < 10
    assert response.status_code == 503
    assert "VLM server" in response.json()["errorMsg"] and "cannot be reached" in response.json()["errorMsg"]
    assert response.headers["Retry-After"]
    own_vlm.up()
    assert service.page(samples.image())["markdown"]["text"], "and back without a restart"


def test_readiness_follows_the_vlm(service, own_vlm, vlm):
    def until(status: int) -> dict:
        deadline = time.monotonic() + 20
        while (response := service.client.get("/health/ready")).status_code != status:
            assert time.monotonic() < deadline, response.text
            time.sleep(0.3)
        return response.json()

    own_vlm.down()
    body = until(503)
    assert body["errorCode"] == 503 and "VLM server" in body["errorMsg"]
    assert body["result"]["layout"]["ready"] and not body["result"]["vlm"]["ready"]
    assert service.client.get("/health").status_code == 200, "the process is alive all the same"
    own_vlm.up()
    until(200)
    vlm.healthy = False
    assert "not healthy" in until(503)["errorMsg"]
    vlm.healthy = True
    until(200)
    vlm.model = "something-else"
    assert "something-else" in until(503)["errorMsg"]


def test_ready_names_the_weights(service):
    result = service.client.get("/health/ready").json()["result"]
    assert result["vlm"]["path"] == "/models/demo/PaddleOCR-VL" and result["vlm"]["demo"] is True
    assert result["layout"]["model"] == "PP-DocLayoutV2" and result["layout"]["demo"] is False


def test_one_refused_block_leaves_a_gap_that_is_named(service, vlm):
    vlm.answer = lambda request, number: (
        (400, "aspect ratio above 200") if prompt_of(request).startswith("Table") else default_answer(request, number)
    )
    entry = service.page(samples.image())
    (failure,) = entry["prunedResult"]["block_failures"]
    assert failure == {"block_id": 4, "kind": "refused", "message": "aspect ratio above 200"}
    assert entry["prunedResult"]["parsing_res_list"][4]["block_content"] == ""
    assert "block of 992 x 245" in entry["markdown"]["text"]
    assert "\ue000" not in str(entry)


def test_a_document_of_refused_blocks_only_is_the_clients_fault(service, vlm):
    vlm.answer = lambda request, number: (400, "aspect ratio above 200")
    response = service.parse(samples.image(size=(30, 8000)), useLayoutDetection=False)
    assert response.status_code == 422
    assert "aspect ratio above 200" in response.json()["errorMsg"]


def test_an_error_of_the_vlm_is_tried_again_once(service, vlm):
    vlm.answer = lambda request, number: (500, "hiccup") if number == 1 else default_answer(request, number)
    assert "block_failures" not in service.page(samples.image())["prunedResult"]


def test_a_vlm_that_breaks_on_everything_is_503(service, vlm):
    vlm.answer = lambda request, number: (500, "EngineDeadError")
    response = service.parse(samples.image())
    assert response.status_code == 503
    assert "EngineDeadError" in response.json()["errorMsg"]


def test_a_wrong_model_name_is_503_and_says_so(service, vlm):
    vlm.model = "other"
    response = service.parse(samples.image())
    assert response.status_code == 503
    assert "PaddleOCR-VL-0.9B" in response.json()["errorMsg"]


def test_odd_answers_do_no_harm(service, vlm):
    for answer in ("", None, "a" * 5000, "<fcel>" * 50, "\\(x\\) $5", "# not a title", "<nl><nl>"):
        vlm.answer = lambda request, number, answer=answer: answer
        assert service.page(samples.image())


def test_slow_blocks_are_given_up(service, vlm):
    vlm.delay_s = 20.0
    response = service.parse(samples.image(size=(400, 60)), useLayoutDetection=False)
    assert response.status_code == 503
    assert "in time" in response.json()["errorMsg"]
