# SPDX-License-Identifier: Apache-2.0
"""Videos of requests: the frames are those that the model's own processor chooses; bad files are refused."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor, smart_resize
from transformers.video_utils import VideoMetadata

from tests.plugin.chat import encode
from tests.plugin.clips import clip, head_first, number_of, trimmed
from tests.support.launched import SERVING
from vlm_models import middleware
from vlm_models.media import DataUrlConnector
from vlm_models.qwen2_vl.model import BoundedQwen2VLInfo, frame_pixels
from vlm_models.video.bounds import VideoBounds
from vlm_models.video.decode import decode_frames, decode_video
from vlm_models.video.reader import frame_indices

BOUNDS = VideoBounds(patience=120)


@pytest.mark.parametrize("fps", [1, 12.5, 23.976, 25, 29.97, 60])
def test_the_chosen_frames_are_the_processors(fps: float):
    processor = Qwen2VLVideoProcessor()
    for total in (2, 3, 5, 8, 49, 50, 51, 333, 1799, 54001):
        about = VideoMetadata(total_num_frames=total, fps=fps, duration=total / fps)
        assert frame_indices(total, fps, 2) == processor.sample_frames(about, fps=2).tolist(), total
        some = processor.sample_frames(about, fps=2, max_frames=16).tolist()
        assert frame_indices(total, fps, 2, most=16) == some, total
    assert frame_indices(1, fps, 2) == [0]


@pytest.mark.parametrize("kind", ["mp4", "avi"])
def test_a_file_is_decoded_to_the_chosen_frames(tmp_path: Path, kind: str):
    frames, facts = decode_video(clip(tmp_path, 50, 25, kind=kind), BOUNDS)
    chosen = frame_indices(50, 25, 2)
    assert frames.shape == (4, 64, 320, 3) and facts["frames_indices"] == chosen
    assert [number_of(one) for one in frames] == chosen, "and not their neighbours"
    assert facts["total_num_frames"] == 50 and facts["fps"] == 25


@pytest.mark.parametrize("length", [None, 1800, 4000, 600_000])
def test_a_matroska_file_has_the_frames_that_it_has(tmp_path: Path, length: float | None):
    """Whatever length (ms) it has as a whole: a sound's, or none, as browsers record."""
    file = clip(tmp_path, 50, 25, kind="mkv")
    said = b"\x44\x89\x88" + struct.pack(">d", 2000)  # Duration
    void = b"\xec\x89" + bytes(9)
    assert file.count(said) == 1
    file = file.replace(said, void if length is None else said[:3] + struct.pack(">d", length))
    frames, facts = decode_video(file, BOUNDS)
    total = min(50, round((length or 2000) / 40))
    assert facts["total_num_frames"] == total and facts["frames_indices"] == frame_indices(total, 25, 2)
    assert [number_of(one) for one in frames] == facts["frames_indices"]


@pytest.mark.parametrize(("first", "shown"), [(0, 20), (5, 40), (13, 25), (30, 20), (49, 1)])
def test_a_trimmed_mp4_has_the_frames_that_it_shows(tmp_path: Path, first: int, shown: int):
    """Whoever cuts a film without coding it anew leaves the frames from the last key frame on, hidden."""
    frames, facts = decode_video(trimmed(clip(tmp_path, 50, 25), first, shown), VideoBounds(fps=25))
    assert facts["total_num_frames"] == shown and len(frames) == max(1, shown // 2 * 2)
    assert [number_of(one) for one in frames] == [first + index for index in facts["frames_indices"]]


@pytest.mark.parametrize(("most", "megapixels"), [(10, 0.21), (4, 0.1), (2, 0.041)])
def test_large_frames_are_fewer(tmp_path: Path, most: int, megapixels: float):
    """As the processor chooses so many, instead of a refusal."""
    frames, facts = decode_video(clip(tmp_path, 250, 25), VideoBounds(megapixels=megapixels))
    about = VideoMetadata(total_num_frames=250, fps=25, duration=10)
    chosen = Qwen2VLVideoProcessor().sample_frames(about, fps=2, min_frames=2, max_frames=most).tolist()
    assert facts["frames_indices"] == chosen and [number_of(one) for one in frames] == chosen and len(chosen) == most


def test_files_that_are_refused(tmp_path: Path):
    whole = clip(tmp_path, 50, 25)
    avi = clip(tmp_path, 50, 25, kind="avi")
    refused = {
        "cut off": (whole[: len(whole) // 2], BOUNDS, "cannot be decoded: it is cut off or damaged"),
        "cut off behind its head": (avi[: len(avi) // 3], BOUNDS, "cut off or damaged"),
        "cut off and trimmed": (
            trimmed(head_first(whole), 10, 40)[: len(whole) // 2],
            VideoBounds(fps=25),
            "cannot be read: it is cut off or damaged",
        ),
        "nothing": (b"", BOUNDS, "format is not known"),
        "a playlist": (b"#EXTM3U\nfile:///etc/hostname\n", BOUNDS, "format is not known"),
        "an empty box": (b"\0\0\0\x18ftypisom" + b"\0" * 40, BOUNDS, "cannot be decoded"),
        "bytes": (whole, VideoBounds(megabytes=0.001), "bytes; expected at most 0.001 million"),
        "nothing behind its head": (clip(tmp_path, 50, 25, kind="mkv")[:800], BOUNDS, "it has 0 frames"),
        "seconds": (whole, VideoBounds(seconds=1), "2.0 s long; expected at most 1 s"),
        "pixels": (whole, VideoBounds(megapixels=0.04), "2 frames of 320 x 64 are more than 0.04 million pixels"),
    }
    for name, (data, bounds, words) in refused.items():
        with pytest.raises(ValueError, match="the video") as caught:
            decode_video(data, bounds)
        assert words in str(caught.value), name
    assert len(decode_video(whole, VideoBounds(frames=2))[0]) == 2


def test_frames_one_after_another():
    pictures = [Image.new("RGB", (40, 30), (value, 0, 0)) for value in (0, 200)]
    frames, _ = decode_frames([encode(one) for one in pictures], BOUNDS)
    assert frames.shape == (2, 30, 40, 3) and frames[1, 0, 0, 0] == 200
    with pytest.raises(ValueError, match="frame 2 has 41 x 30 pixels, its first 40 x 30"):
        decode_frames([encode(pictures[0]), encode(Image.new("RGB", (41, 30)))], BOUNDS)
    with pytest.raises(ValueError, match="3 frames; expected 1 to 2"):
        decode_frames([encode(pictures[0])] * 3, VideoBounds(frames=2))
    with pytest.raises(ValueError, match="more than 0.001 million pixels"):
        decode_frames([encode(pictures[0])], VideoBounds(megapixels=0.001))


def test_the_connector_takes_both_forms_where_the_model_reads_video(tmp_path: Path):
    connector = DataUrlConnector({"video": {"fps": 2, "patience": 120}})
    file = base64.b64encode(clip(tmp_path)).decode()
    assert connector.fetch_video(f"data:video/mp4;base64,{file}")[0].shape == (4, 64, 320, 3)
    one = base64.b64encode(encode(Image.new("RGB", (40, 30)))).decode()
    assert connector.fetch_video(f"data:video/jpeg;base64,{one},{one}")[0].shape == (2, 30, 40, 3)
    for url, words in {
        "http://127.0.0.1:9/clip.mp4": "video_url: 'http://127.0.0.1:9/clip.mp4' is not accepted, this server opens no",
        "data:video/mp4,abc": "not of the form data:video/mp4;base64",
        "data:video/jpeg;base64,": "the image is empty",
        f"data:video/jpeg;base64,{one},%": "base64 data cannot be decoded",
    }.items():
        with pytest.raises(ValueError, match=r"\w") as caught:
            connector.fetch_video(url)
        assert words in str(caught.value)
    with pytest.raises(ValueError, match="unknown key 'fpss'; expected fps, frames"):
        DataUrlConnector({"video": {"fpss": 2}})


def test_a_videos_pixels_are_counted_before_it_is_decoded():
    def pixels(url: str) -> tuple[int, int]:
        parts = [{"type": "video_url", "video_url": {"url": url}}]
        return middleware.pixels_of_request({"messages": [{"role": "user", "content": parts}]})

    one = base64.b64encode(encode(Image.new("RGB", (40, 30)))).decode()
    assert pixels(f"data:video/jpeg;base64,{one},{one}") == (2400, 0)
    assert pixels("data:video/mp4;base64,AAAA") == (0, 1)
    with pytest.raises(middleware.Refusal, match=r"messages\[0\].content\[0\].video_url: "):
        pixels("data:video/mp4;base64,%")


def test_pixels_of_a_frame():
    block = 28 * 28
    assert frame_pixels(4) == (128 * block, 768 * block)
    assert frame_pixels(128) == (128 * block, 384 * block), "all frames share the video's pixels"
    assert frame_pixels(768)[1] > frame_pixels(768)[0]


class Info(BoundedQwen2VLInfo):
    """Of a server with these options, without a checkpoint, which says only what images are."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def server_options(self) -> dict[str, Any]:
        return self.options

    def most_blocks(self) -> int:
        return 0


@pytest.mark.parametrize("name", [name for name, entry in SERVING.models.items() if entry.family == "qwen2_vl"])
@pytest.mark.parametrize("size", [(360, 640), (480, 640), (720, 1280), (1080, 1920), (2160, 3840), (1, 200)])
def test_a_video_of_any_length_leaves_room_for_an_answer(name: str, size: tuple[int, int]):
    """By transformers' own arithmetic. vLLM 0.11.1 would never schedule one of more tokens than it is told."""
    arguments = SERVING.models[name].arguments
    info = Info(arguments["mm-processor-kwargs"])
    most = info.get_mm_max_tokens_per_item(arguments["max-model-len"], {"video": 1})["video"]
    assert most <= min(arguments["max-model-len"], arguments["max-num-batched-tokens"])
    for frames in range(1, BOUNDS.frames + 1):
        pixels = info.video_size({}, frames)
        height, width = smart_resize(*size, 28, min_pixels=pixels["shortest_edge"], max_pixels=pixels["longest_edge"])
        tokens = -(-frames // 2) * (height * width // 28**2)
        assert tokens <= most and tokens + 2048 <= arguments["max-model-len"], frames


def test_the_entry_bounds_what_the_connector_knows():
    """models.yaml's words are those that the connector takes."""
    import yaml

    from tests.support.paths import ROOT

    models = yaml.safe_load((ROOT / "config/models.yaml").read_text())["models"]
    for name, entry in models.items():
        arguments = entry["arguments"]
        reads_video = "video" in arguments["limit-mm-per-prompt"]
        assert ("media-io-kwargs" in arguments) == reads_video, name
        if reads_video:
            assert DataUrlConnector(arguments["media-io-kwargs"]).video_bounds == VideoBounds(), (
                "it writes the defaults"
            )
