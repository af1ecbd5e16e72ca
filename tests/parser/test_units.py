# SPDX-License-Identifier: Apache-2.0
"""Units that need no running service."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import file_types
from docparser.contract.schemas import ParseOptions, ParseRequest
from docparser.documents.intake import check_type
from docparser.documents.page import LONGEST_SIDE, DocumentLimits
from docparser.documents.pdf import render_scale
from docparser.documents.reader import DocumentReader
from docparser.documents.spool import Document
from docparser.errors import InvalidDocument, NotReady
from docparser.settings import Settings, variable
from docparser.weights import find_layout_model
from docparser.worker import offline
from parser_memory import default_workers
from served_weights import layout
from served_weights.manifest import is_demo
from tests.support.processes import child_environment


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in ("VLM_URL", "VLM_MODEL_NAME", "LAYOUT_MODEL_DIR", "MODELS_DIR", "VLM_MODEL", "HARDWARE"):
        monkeypatch.delenv(name, raising=False)


class TestSettings:
    def test_shared_names_have_no_prefix(self, monkeypatch):
        monkeypatch.setenv("VLM_URL", "http://vlm:9/v1/")
        monkeypatch.setenv("PARSER_WORKERS", "3")
        settings = Settings()
        assert (settings.vlm_url, settings.workers) == ("http://vlm:9/v1", 3)

    @pytest.mark.parametrize(
        ("cores", "workers", "threads"), [(1, 1, 1), (2, 2, 1), (4, 2, 2), (8, 4, 2), (32, 16, 2), (192, 32, 4)]
    )
    def test_workers_and_threads_by_the_number_of_cores(self, monkeypatch, cores, workers, threads):
        monkeypatch.setattr("cgroup.cores", lambda: cores)
        monkeypatch.setattr("cgroup.memory", lambda: 1 << 40)
        settings = Settings()
        assert (settings.workers, settings.cpu_threads) == (workers, threads)
        assert Settings(workers=1).cpu_threads == min(4, cores)

    @pytest.mark.parametrize(
        ("cores", "gibibytes", "workers"),
        [
            (640, 41, 32),
            (640, 64, 32),
            (640, 13, 4),
            (192, 10, 2),
            (640, 16, 7),
            (8, 24, 4),
            (1, 4, 1),
            (2, 6, 2),
            (640, None, 32),
        ],
    )
    def test_no_more_workers_than_the_containers_memory_is_enough_for(self, cores, gibibytes, workers):
        assert default_workers(cores, gibibytes and gibibytes << 30) == workers

    def test_a_worker_begins_as_many_whole_pages_as_it_may_have_calls(self, monkeypatch):
        def pages(model: str, **settings: Any) -> int:
            return Settings(vlm_model=model, **settings).pages_in_flight

        assert pages("PaddleOCR-VL-1.6", workers=4) == pages("no such model", workers=4) == 24
        assert [pages("HunyuanOCR", workers=workers) for workers in (4, 32, 64)] == [256, 64, 32]
        assert pages("Qwen2-VL-2B-Instruct", workers=4, vlm_concurrency=400) == 100
        assert pages("HunyuanOCR", workers=4, vlm_concurrency=2) == 1
        monkeypatch.setenv("PARSER_PAGES_IN_FLIGHT", "7")
        assert pages("HunyuanOCR", workers=4) == 7

    def test_empty_means_unset(self, monkeypatch):
        monkeypatch.setenv("PARSER_PORT", "")
        assert Settings().port == 8080

    def test_a_url_without_scheme_is_refused(self):
        with pytest.raises(ValueError, match=r"vlm:8000.*http://127.0.0.1:8000/v1"):
            Settings(vlm_url="vlm:8000")

    def test_names_of_variables(self):
        assert [variable(name) for name in ("port", "vlm_url", "VLM_URL")] == ["PARSER_PORT", "VLM_URL", "VLM_URL"]


class TestWeights:
    @staticmethod
    def put(folder: Path) -> str:
        folder.mkdir(parents=True)
        for name in layout.FILES:
            (folder / name).touch()
        return str(folder)

    def test_the_published_folder_comes_first_then_the_demo(self, tmp_path):
        settings = Settings(models_dir=tmp_path)
        with pytest.raises(NotReady, match=f"{tmp_path}.*LAYOUT_MODEL_DIR"):
            find_layout_model(settings)
        demo = self.put(tmp_path / "demo" / "PP-DocLayoutV2")
        assert (find_layout_model(settings).path, find_layout_model(settings).demo) == (demo, True)
        beside = self.put(tmp_path / "PP-DocLayoutV2")
        assert (find_layout_model(settings).path, find_layout_model(settings).demo) == (beside, False)
        inside = self.put(tmp_path / "PaddleOCR-VL" / "PP-DocLayoutV2")
        assert find_layout_model(settings).path == inside

    def test_an_image_may_carry_it(self, tmp_path, monkeypatch):
        carried = self.put(tmp_path / "image" / "PP-DocLayoutV2")
        monkeypatch.setattr(layout, "CARRIED", Path(carried).parent)
        self.put(tmp_path / "demo" / "PP-DocLayoutV2")
        assert find_layout_model(Settings(models_dir=tmp_path)).path == carried
        assert not find_layout_model(Settings(models_dir=tmp_path, hardware="ascend", vlm_model="PaddleOCR-VL")).demo
        beside = self.put(tmp_path / "PP-DocLayoutV2")
        assert find_layout_model(Settings(models_dir=tmp_path)).path == beside

    def test_the_demo_never_serves_on_ascend(self, tmp_path):
        self.put(tmp_path / "demo" / "PP-DocLayoutV2")
        with pytest.raises(NotReady):
            find_layout_model(Settings(models_dir=tmp_path, hardware="ascend"))

    def test_nor_beside_a_model_that_is_named(self, tmp_path):
        self.put(tmp_path / "demo" / "PP-DocLayoutV2")
        with pytest.raises(NotReady):
            find_layout_model(Settings(models_dir=tmp_path, vlm_model="PaddleOCR-VL"))
        assert find_layout_model(Settings(models_dir=tmp_path, vlm_model="demo/PaddleOCR-VL")).demo

    def test_a_name_of_the_catalogue_means_its_path(self, tmp_path):
        catalogue = tmp_path / "models.yaml"
        catalogue.write_text("{default: a, models: {a: {path: A, served_name: a}, b: {path: deep/B, served_name: b}}}")
        expected = self.put(tmp_path / "deep" / "B" / "PP-DocLayoutV2")
        settings = Settings(models_dir=tmp_path, models_config=catalogue, vlm_model="b")
        assert find_layout_model(settings).path == expected

    def test_a_named_folder_is_the_only_one(self, tmp_path):
        self.put(tmp_path / "PP-DocLayoutV2")
        with pytest.raises(NotReady, match="elsewhere"):
            find_layout_model(Settings(models_dir=tmp_path, layout_model_dir=tmp_path / "elsewhere"))

    def test_files_are_compared_with_their_manifest(self, tmp_path):
        settings = Settings(models_dir=tmp_path)
        folder = Path(self.put(tmp_path / "PP-DocLayoutV2"))
        assert find_layout_model(settings, verify=True).path == str(folder), "without a manifest nothing can differ"
        digests = {name: hashlib.sha256(b"").hexdigest() for name in layout.FILES}
        manifest = folder / "SHA256SUMS"
        manifest.write_text("# made by sha256sum\n" + "".join(f"{sum}  {name}\n" for name, sum in digests.items()))
        assert find_layout_model(settings, verify=True).path == str(folder)
        (folder / "inference.pdiparams").write_bytes(b"other")
        assert find_layout_model(settings).path == str(folder), "readiness does not hash again"
        with pytest.raises(NotReady, match="inference.pdiparams is damaged or not the published file"):
            find_layout_model(settings, verify=True)
        manifest.write_text(f"{digests['inference.json']} *inference.json\n")
        with pytest.raises(NotReady, match="inference.pdiparams is not listed"):
            find_layout_model(settings, verify=True)

    def test_the_demo_that_an_image_carries_says_what_it_is(self, tmp_path, monkeypatch):
        carried = Path(self.put(tmp_path / "image" / "PP-DocLayoutV2"))
        monkeypatch.setattr(layout, "CARRIED", carried.parent)
        tracked = Path(__file__).parents[2] / "models/demo/PP-DocLayoutV2/SHA256SUMS"
        (carried / "SHA256SUMS").write_text(tracked.read_text())
        assert find_layout_model(Settings(models_dir=tmp_path)).demo

    def test_demo_is_told_from_the_path(self):
        assert is_demo("/models/demo/PaddleOCR-VL")
        assert not is_demo("/demo/models/PaddleOCR-VL")


def test_class_names_become_numbers():
    sent = {"file": "x", "layoutThreshold": {"text": 0.1, "0": 0.2}, "layoutUnclipRatio": {"table": 1.5}}
    request = ParseRequest.model_validate(sent)
    assert request.layoutThreshold == {22: 0.1, 0: 0.2}
    assert request.layoutUnclipRatio == {21: (1.5, 1.5)}
    assert ParseRequest(file="x", layoutThreshold=1).layoutThreshold == 1.0


def test_fields_that_are_no_options_are_noted():
    names = ["useChartRecogniton", "foo", "bar", *(f"more{n}" for n in range(5)), "x" * 100]
    sent = dict.fromkeys(names, 1) | {"file": "x", "logId": "1", "visualize": None, "unset": None}
    told = ParseRequest.model_validate(sent).notes()
    assert told == [
        "useChartRecogniton: no such option here, it has no effect (did you mean useChartRecognition?).",
        *(f"{name}: no such option here, it has no effect." for name in ("foo", "bar", "more0", "more1")),
        "4 more fields are no options here and have no effect.",
    ]
    assert ParseRequest.model_validate({"file": "x", "logId": "1"}).notes() == []
    options = ParseOptions.model_validate({"foo": 1}).model_copy(update={"visualize": False})
    assert options.notes() == ["foo: no such option here, it has no effect."], "copies tell it too"


@pytest.mark.parametrize(
    ("name", "offset", "magic"),
    [(known.name, offset, magic) for known in file_types.FORMATS for offset, magic in known.signatures],
)
def test_every_format_of_the_table_is_taken(name, offset, magic):
    data, kind = bytes(offset) + magic, 0 if name == "PDF" else 1
    assert check_type(data, None) == check_type(data, kind) == name
    with pytest.raises(InvalidDocument, match=f"file is a {name}; send fileType {kind}"):
        check_type(data, 1 - kind)


def test_pages_of_a_big_tiff(tmp_path):
    path = tmp_path / "x.tif"
    frames = [Image.new("L", (60, 40), "white"), Image.new("L", (30, 20), "white")]
    frames[0].save(path, save_all=True, append_images=frames[1:], big_tiff=True)
    assert path.read_bytes()[:4] == b"II+\0"
    reader = DocumentReader(DocumentLimits.of(Settings()))
    document = Document(str(path), check_type(path.read_bytes(), 1))
    assert reader.count_pages(document) == 2 and reader.read_page(document, 1).pixels.shape == (20, 30, 3)


def test_pdf_pages_are_rendered_at_the_operators_scale_within_bounds():
    limits = DocumentLimits.of(Settings(max_pdf_page_pixels=40_000_000, pdf_scale=2.0))
    assert render_scale(595, 842, limits) == 2.0
    assert render_scale(59.5, 84.2, limits, unit=10.0) == pytest.approx(20.0)
    assert render_scale(595, 842, limits, at_least=300 / 72) == 300 / 72
    assert 100 * render_scale(100, 140, limits) == pytest.approx(1000), "a page of a few points is large enough to read"
    assert (20_000 * render_scale(20_000, 20_000, limits)) ** 2 == pytest.approx(40_000_000)
    sides = [math.ceil(length * render_scale(length, 1, limits)) for length in range(16_001, 60_001)]
    assert LONGEST_SIDE - 1 <= min(sides) and max(sides) <= LONGEST_SIDE, "PDFium rounds up"
    with pytest.raises(ValueError, match="0 x 5 points"):
        render_scale(0, 5, limits)


def test_libraries_start_no_threads_in_a_worker(tmp_path):
    """Otherwise OpenCV starts one for each core of the machine in each worker, 640 in each of 16 on an A3 server, and
    NumPy up to 64 where it is imported before the settings are there."""
    program = (
        "import os, sys; from pathlib import Path; from docparser.worker import main, offline\n"
        "offline.prepare(Path(sys.argv[1]))\n"
        "import cv2, numpy; cv2.resize(numpy.zeros((2000, 1500, 3), numpy.uint8), (800, 800))\n"
        "print(cv2.getNumThreads(), len(os.listdir('/proc/self/task')))"
    )
    words = [sys.executable, "-c", program, tmp_path / "cache"]
    done = subprocess.run(words, env=child_environment(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]


def test_the_operators_environment_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDLE_PDX_LOCAL_FONT_FILE_PATH", "/fonts/mine.ttf")
    for name in ("PADDLE_PDX_CACHE_HOME", "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK", "HF_HUB_OFFLINE", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "kept")
    monkeypatch.setenv("KMP_BLOCKTIME", "kept")
    monkeypatch.delenv("KMP_BLOCKTIME")
    offline.prepare(tmp_path / "cache")
    import os

    assert os.environ["KMP_BLOCKTIME"] == "0", "what nobody has set is"

    assert os.environ["PADDLE_PDX_LOCAL_FONT_FILE_PATH"] == "/fonts/mine.ttf"
    assert os.environ["OMP_NUM_THREADS"] == "kept"
    assert (tmp_path / "cache" / "Aileron-Regular.ttf").read_bytes()[:4] == b"\0\1\0\0"
