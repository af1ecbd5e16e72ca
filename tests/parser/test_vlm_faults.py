# SPDX-License-Identifier: Apache-2.0
"""What a client is told when the VLM server is away, broken or slow, or refuses."""

from __future__ import annotations

from tests.support import samples
from tests.support.simulated_vlm import default_answer, prompt_of
from tests.support.wait import wait_for


def test_a_vlm_that_is_away_is_503(service, own_vlm):
    own_vlm.down()
    response = service.parse(samples.image())
    assert response.status_code == 503
    assert "VLM server" in response.json()["errorMsg"] and "cannot be reached" in response.json()["errorMsg"]
    assert response.headers["Retry-After"]
    own_vlm.up()
    assert service.page(samples.image())["markdown"]["text"], "and back without a restart"


def test_readiness_follows_the_vlm(service, own_vlm, vlm):
    def until(status: int) -> dict:
        wait_for(lambda: service.client.get("/health/ready").status_code == status)
        return service.client.get("/health/ready").json()

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
    assert result["vlm"]["path"] == "/models/PaddleOCR-VL" and result["vlm"]["demo"] is False
    assert result["layout"]["model"] == "PP-DocLayoutV2" and result["layout"]["demo"] is False


def test_one_refused_block_leaves_a_gap_that_is_named(service, vlm):
    vlm.answer = lambda request, number: (
        (400, "aspect ratio above 200") if prompt_of(request).startswith("Table") else default_answer(request, number)
    )
    result = service.parse(samples.image(), visualize=False).json()["result"]
    failure = {"block_id": 4, "kind": "refused", "message": "aspect ratio above 200"}
    report = {key: result["docparser"][key] for key in ("partial", "pages")}
    assert report == {"partial": True, "pages": [{"page": 1, "blocks": [failure]}]}
    (entry,) = result["layoutParsingResults"]
    assert entry["prunedResult"]["parsing_res_list"][4]["block_content"] == ""
    assert "block of 992 x 245" in entry["markdown"]["text"]
    assert "\ue000" not in str(entry)


def test_a_document_of_refused_blocks_only_is_the_clients_fault(service, vlm):
    vlm.answer = lambda request, number: (400, "aspect ratio above 200")
    response = service.parse(samples.image(size=(30, 8000)), useLayoutDetection=False)
    assert response.status_code == 422
    assert "aspect ratio above 200" in response.json()["errorMsg"]


def test_errors_of_the_vlm_are_tried_again(service, vlm):
    vlm.answer = lambda request, number: (500, "hiccup") if number <= 3 else default_answer(request, number)
    assert service.parse(samples.image()).json()["result"]["docparser"]["partial"] is False


def test_a_vlm_that_is_full_is_given_time(service, vlm):
    vlm.answer = lambda request, number: (429, "full") if number <= 5 else default_answer(request, number)
    assert service.parse(samples.image()).json()["result"]["docparser"]["partial"] is False


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


def test_a_block_that_repeats_itself_is_asked_for_again(service, vlm):
    def loop_at_first(request: dict, number: int) -> str:
        return "The same words. " * 300 if "repetition_penalty" not in request else "Other words."

    vlm.answer = loop_at_first
    result = service.parse(samples.image(size=(400, 60)), useLayoutDetection=False).json()["result"]
    assert result["layoutParsingResults"][0]["markdown"]["text"] == "Other words."
    assert result["docparser"]["partial"] is False
    first, second = vlm.requests
    assert first["temperature"] == 0 and second["temperature"] > 0 and second["repetition_penalty"] > 1


def test_a_repetition_is_seen_while_it_streams_and_hung_up_on(service, vlm):
    vlm.answer = lambda request, number: "The same words. " * 30_000
    vlm.piece_delay_s = 0.002
    result = service.parse(samples.image(size=(400, 60)), useLayoutDetection=False).json()["result"]
    (page,) = result["docparser"]["pages"]
    (note,) = page["blocks"]
    assert (note["block_id"], note["kind"]) == (0, "repetition") and result["docparser"]["partial"] is True
    assert len(result["layoutParsingResults"][0]["markdown"]["text"]) < 60, "cut down to one piece"
    assert len(vlm.requests) == 2
    wait_for(lambda: vlm.hang_ups == 2)  # before the whole text was written, which takes a minute


def test_text_that_was_cut_says_so(service, vlm):
    vlm.finish_reason = "length"
    result = service.parse(samples.image(size=(400, 60)), useLayoutDetection=False).json()["result"]
    assert [note["kind"] for note in result["docparser"]["pages"][0]["blocks"]] == ["length"]
    assert "block of" in result["layoutParsingResults"][0]["markdown"]["text"]


def test_text_that_the_vlm_broke_off_is_asked_for_again(service, vlm):
    """vLLM ends so what is in work when it is told to end; the text so far looks like a whole one."""

    def answer(request: dict, number: int) -> str:
        vlm.finish_reason = "abort" if len(vlm.requests) == 1 else "stop"
        return "The first half" if len(vlm.requests) == 1 else "The first half and the second."

    vlm.answer = answer
    result = service.parse(samples.image(size=(400, 60)), useLayoutDetection=False).json()["result"]
    assert result["layoutParsingResults"][0]["markdown"]["text"] == "The first half and the second."
    assert result["docparser"]["partial"] is False and len(vlm.requests) == 2


def test_the_request_id_reaches_the_vlm_and_comes_back(service, vlm):
    body = {"file": samples.image(), "visualize": False}
    response = service.client.post("/layout-parsing", json=body, headers={"X-Request-Id": "invoice-7"})
    assert response.headers["X-Request-Id"] == "invoice-7"
    assert all(identity.startswith("invoice-7-p1-b") for identity in vlm.request_ids)
    assert len(set(vlm.request_ids)) == 7
    wait_for(lambda: '"request_id": "invoice-7"' in service.log.read_text())  # written after the answer
