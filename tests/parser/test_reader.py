# SPDX-License-Identifier: Apache-2.0
"""Documents are read in processes of their own, which end when a page takes too long, too much, or is not wanted."""

from __future__ import annotations

import array
import base64
import contextlib
import fcntl
import io
import os
import signal
import subprocess
import sys
import termios
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pikepdf
import pytest
from PIL import Image

from docparser.documents import decoder
from docparser.documents import reader as reader_module
from docparser.documents.page import LONGEST_SIDE, DocumentLimits
from docparser.documents.pdf import PdfReader
from docparser.documents.reader import DocumentReader, Reading
from docparser.documents.renderer import LOWER_PRIORITY, Renderer
from docparser.documents.spool import Document, OpenDocument
from docparser.errors import Abandoned, DocumentTooLarge, DocumentTooSlow, InvalidDocument, PageTimeout
from docparser.opening import tones
from docparser.settings import Settings
from file_types import format_of
from tests.support import bombs, samples
from tests.support.paths import ROOT
from tests.support.processes import child_environment, gone
from tests.support.wait import wait_for

LIMIT_S = 0.5
SHORT = bombs.function_shading, bombs.many_scans  # one that PDFium draws, and one that Pillow reads
SLOW = [make if make in SHORT else pytest.param(make, marks=pytest.mark.long) for make in bombs.SLOW]


@pytest.fixture
def make_reader() -> Iterator:
    readers = []

    def make(**settings) -> DocumentReader:
        readers.append(DocumentReader(DocumentLimits.of(Settings(**settings))))
        return readers[-1]

    yield make
    for reader in readers:
        reader.close()


@pytest.fixture
def keep(tmp_path):
    def keep(data: bytes, name: str = "document") -> Document:
        (tmp_path / name).write_bytes(data)
        format = format_of(data)
        assert format is not None
        return Document(str(tmp_path / name), format)

    return keep


@pytest.fixture
def renderers(monkeypatch) -> list[Renderer]:
    """All that are started."""
    started: list[Renderer] = []

    class Seen(Renderer):
        def __init__(self, limits: DocumentLimits) -> None:
            super().__init__(limits)
            started.append(self)

    monkeypatch.setattr(reader_module, "Renderer", Seen)
    return started


@pytest.fixture
def soon_slow(monkeypatch) -> None:
    """A page is slow after a moment."""
    monkeypatch.setattr(reader_module, "SLOW_S", 0.3)


# Whoever runs tests at the lowest priority sees none that is lower.
has_lower = pytest.mark.skipif(os.nice(0) >= 19, reason="these tests run at the lowest priority already")


def is_lower(renderer: Renderer) -> bool:
    """Whether its priority is as far below that of this process as it should be; the kernel ends at 19."""
    own, found = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, renderer.pid))
    assert found in (own, min(19, own + LOWER_PRIORITY))
    return found > own


GOOD_SHAPE = (1190, 1190, 3)


def good(keep) -> Document:
    return keep(samples.pdf_bytes((595, 595)), "good")


@pytest.mark.parametrize("make", SLOW, ids=lambda make: make.__name__)
def test_a_page_that_takes_too_long_is_ended_and_the_next_is_read(make, make_reader, keep, renderers):
    reader, document = make_reader(render_timeout_s=LIMIT_S), keep(make())
    assert reader.count_pages(document) == 1
    with pytest.raises(
        DocumentTooSlow, match=r"page 1 was given up after 0.5 s of CPU time .*\(PARSER_RENDER_TIMEOUT_S\)"
    ):
        reader.read_page(document, 0)
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE
    assert gone(renderers[0].pid) and len(renderers) == 2


def test_a_page_that_got_no_cpu_time_is_no_slow_one(make_reader, keep, renderers, monkeypatch):
    """As where the machine was paused."""
    reader = make_reader()
    reader.read_page(good(keep), 0)
    os.kill(renderers[0].pid, signal.SIGSTOP)
    monkeypatch.setattr(Renderer, "wall_s", 201.0)
    with pytest.raises(PageTimeout, match=r"page 1 was given up after 200 s by the clock, .* 0\.0 s of CPU time"):
        reader.read_page(good(keep), 0)
    monkeypatch.undo()
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE


def test_opening_a_document_is_bounded_too(make_reader, keep):
    reader = make_reader(render_timeout_s=0.3)
    with pytest.raises(DocumentTooSlow, match=r"opening the document was given up after 0.3 s"):
        reader.count_pages(keep(bombs.huge_cross_references()))


def test_as_many_pages_and_pixels_as_are_allowed_are_read(keep):
    own = decoder.DocumentDecoder(DocumentLimits.of(Settings(max_pages=3, max_image_pixels=120 * 100)))
    for content in (samples.blank_pages(3), base64.b64decode(samples.tiff(*[(120, 100)] * 3))):
        with keep(content).opened() as document:
            assert own.count_pages(document) == 3
    for size, error in (((120, 100), ""), ((121, 100), "121 x 100 = 12100 pixels"), ((1, 12_001), "12001 pixels")):
        refused = pytest.raises(DocumentTooLarge, match=error) if error else contextlib.nullcontext()
        with keep(samples.save(samples.picture(size), "PNG")).opened() as document, refused:
            assert own.read_page(document, 0).pixels.shape == (size[1], size[0], 3)
    usual = decoder.DocumentDecoder(DocumentLimits.of(Settings()))
    with keep(samples.save(samples.picture((LONGEST_SIDE, 1), "1", 1), "PNG")).opened() as document:
        assert usual.read_page(document, 0).pixels.shape[1] == LONGEST_SIDE


def test_the_last_pdfs_stay_open_and_those_that_are_gone_do_not(keep):
    reader, documents = PdfReader(), [keep(samples.blank_pages(1), f"{number}.pdf") for number in range(6)]
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(document.opened()) for document in documents]
        for document in (*opened[:4], opened[0], opened[4]):
            assert reader.count_pages(document) == 1
        assert [name[1] for name in reader._open_pdfs] == [os.fstat(opened[at].file).st_ino for at in (2, 3, 0, 4)]
        for at in (2, 4):
            os.unlink(documents[at].path)
        reader.close_deleted()
        reader.count_pages(opened[5])
        assert [name[1] for name in reader._open_pdfs] == [os.fstat(opened[at].file).st_ino for at in (3, 0, 5)]


def test_a_renderer_lets_go_of_deleted_documents_with_the_next_one_of_any_kind(make_reader, keep, renderers):
    reader, picture = make_reader(), keep(samples.save(samples.picture((50, 40)), "PNG"), "picture")
    gone_soon = keep(samples.blank_pages(1), "gone soon")
    reader.read_page(gone_soon, 0)
    os.unlink(gone_soon.path)
    reader.read_page(picture, 0)
    files = Path(f"/proc/{renderers[0].pid}/fd")
    assert not [link for file in files.iterdir() if "gone soon" in (link := os.readlink(file))]


def test_a_chain_of_tiff_directories_is_followed_no_further_than_pages_are_allowed(make_reader, keep):
    document = keep(bombs.tiff_chain(20_000))
    with pytest.raises(DocumentTooLarge, match="11 pages or more; at most 10 are allowed"):
        make_reader(max_pages=10).count_pages(document)
    with pytest.raises(DocumentTooLarge, match="2001 pages or more"):
        make_reader().count_pages(document)


def test_what_is_filled_into_a_form_is_drawn(make_reader, keep):
    """The field has no appearance of its own, as some programs leave it (ISO 32000-2, 12.7.3.3)."""
    with pikepdf.new() as pdf, io.BytesIO() as buffer:
        page = pdf.add_blank_page(page_size=(200, 100)).obj
        field = pdf.make_indirect(
            pikepdf.Dictionary(
                Type=pikepdf.Name.Annot,
                Subtype=pikepdf.Name.Widget,
                FT=pikepdf.Name.Tx,
                T="name",
                V="MMMMMMMM",
                DA="/Helv 20 Tf 0 g",
                Rect=[20, 30, 180, 70],
                F=4,
            )
        )
        page.Annots = [field]
        font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        pdf.Root.AcroForm = pikepdf.Dictionary(
            Fields=[field], NeedAppearances=True, DA="/Helv 20 Tf 0 g", DR={"/Font": {"/Helv": font}}
        )
        pdf.save(buffer)
        drawn = make_reader().read_page(keep(buffer.getvalue()), 0).pixels
    assert (drawn < 128).sum() > 500, "black letters"


def test_memory_is_bounded(make_reader, keep):
    reader, document = make_reader(render_memory_mib=256), keep(bombs.tiff_of_one_strip())
    with pytest.raises(DocumentTooLarge, match=r"page 1 needs more than 256 MiB .*\(PARSER_RENDER_MEMORY_MIB\)"):
        reader.read_page(document, 0)
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE


def test_memory_is_bounded_inside_a_pdf(make_reader, keep, renderers):
    """PDFium leaves out a picture for which there is no memory. It wanted 580 MiB."""
    make_reader(render_memory_mib=256).read_page(keep(bombs.masked_image(20_000)), 0)
    status = Path(f"/proc/{renderers[-1].pid}/status").read_text()
    most_kib = max(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    assert most_kib < 400 << 10


def test_no_renderer_keeps_the_memory_of_a_large_document(make_reader, keep, renderers, monkeypatch):
    """A PDF of two kilobytes, whose forms nest, has left 1,290 MiB behind."""
    reader, small = make_reader(), keep(samples.blank_pages(1), "small")
    reader.read_page(small, 0)
    reader.read_page(small, 0)
    (usual,) = renderers
    assert 0 < usual.memory_mib < reader_module.MOST_KEPT_MIB / 2
    held = [reader_module.MOST_KEPT_MIB + 1.0]
    monkeypatch.setattr(Renderer, "memory_mib", property(lambda renderer: held[0]))
    reader.read_page(small, 0)
    assert gone(usual.pid), "it held what the page took"
    held[0] = 0.0
    reader.read_page(small, 0)
    assert len(renderers) == 2 and not gone(renderers[1].pid)


def test_memory_is_bounded_when_a_document_is_opened(make_reader, keep):
    with pytest.raises((DocumentTooLarge, InvalidDocument)):
        make_reader(render_memory_mib=256).count_pages(keep(bombs.huge_cross_references()))


@pytest.mark.parametrize("mode", ["RGBA", "F"])
def test_pictures_of_every_mode_need_a_quarter_of_the_memory_for_a_quarter_of_the_pixels(make_reader, keep, mode):
    """These modes were converted with most copies: 20 bytes a pixel and more."""
    data = samples.save(samples.picture((10_000, 2_500), mode, 0), "TIFF", compression="tiff_adobe_deflate")
    assert make_reader(render_memory_mib=512).read_page(keep(data), 0).pixels.shape == (2_500, 10_000, 3)


def test_pixels_are_the_same_in_strips(make_reader, keep, monkeypatch):
    chance = np.random.default_rng(3)
    for channels, kind in ((3, np.uint8), (4, np.uint8), (1, np.uint16)):
        pixels = np.squeeze(chance.integers(0, np.iinfo(kind).max, (57, 41, channels), kind))
        document = keep(samples.save(Image.fromarray(pixels), "PNG"))
        with document.opened() as opened:
            whole = decoder.read_frame(opened, 0, DocumentLimits.of(Settings())).pixels
            monkeypatch.setattr(tones, "STRIP_PIXELS", 41 * 5)
            strips = decoder.read_frame(opened, 0, DocumentLimits.of(Settings())).pixels
        monkeypatch.undo()
        assert (whole == strips).all(), channels
        assert (make_reader().read_page(document, 0).pixels == whole).all(), channels


def test_a_chunk_that_claims_a_gigabyte_takes_no_memory(keep):
    """A PNG of 43 bytes whose pixels are said to be 1.1 GB long; found by fuzzing."""
    document = keep((ROOT / "tests/fuzz/findings/pictures/png-chunk-of-a-gigabyte").read_bytes())
    tracemalloc.start()
    try:
        with contextlib.suppress(InvalidDocument), document.opened() as opened:
            decoder.read_frame(opened, 0, DocumentLimits.of(Settings()))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@has_lower
@pytest.mark.usefixtures("soon_slow")
def test_a_slow_page_steps_aside_and_others_are_read_meanwhile(make_reader, keep, renderers):
    reader, slow, enough = make_reader(render_timeout_s=60.0), threading.Event(), threading.Event()
    document, ended = keep(bombs.function_shading()), []

    def read() -> None:
        try:
            reader.read_page(document, 0, Reading(on_slow=slow.set, cancelled=enough.is_set))
        except Abandoned as exc:
            ended.append(exc)

    thread = threading.Thread(target=read)
    thread.start()
    wait_for(slow.is_set)
    assert is_lower(renderers[0])
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE
    assert not ended and not gone(renderers[0].pid), "the slow page is still being read"
    enough.set()
    thread.join()
    assert len(ended) == 1 and gone(renderers[0].pid)


@pytest.mark.usefixtures("soon_slow")
def test_a_page_that_nobody_waits_for_is_ended(make_reader, keep, renderers):
    reader, slow = make_reader(render_timeout_s=60.0, max_pages=5), threading.Event()
    with pytest.raises(Abandoned):
        reader.read_page(keep(bombs.function_shading()), 0, Reading(on_slow=slow.set, cancelled=slow.is_set))
    assert gone(renderers[0].pid)


@has_lower
def test_documents_read_apart_have_low_priority_from_the_beginning(make_reader, keep, renderers):
    reader = make_reader()
    reader.read_page(good(keep), 0, Reading(apart=True))
    reader.read_page(good(keep), 0)
    assert [is_lower(renderer) for renderer in renderers] == [False, True]
    reader.read_page(good(keep), 0, Reading(apart=True))
    assert len(renderers) == 2, "both are kept"


def test_a_page_is_tried_again_when_its_renderer_ends_by_itself(make_reader, keep, renderers):
    reader = make_reader()
    os.kill(renderers[0].pid, signal.SIGKILL)
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE


def test_a_page_that_ends_two_renderers_is_given_up(make_reader, keep, monkeypatch):
    reader = make_reader()
    ask = Renderer.ask

    def ask_and_end(self: Renderer, document: OpenDocument, index: int | None, **options: bool) -> None:
        ask(self, document, index, **options)
        os.kill(self.pid, signal.SIGKILL)

    monkeypatch.setattr(Renderer, "ask", ask_and_end)
    with pytest.raises(InvalidDocument, match=r"page 1 ended the process that read it \(SIGKILL\)"):
        reader.read_page(good(keep), 0)
    monkeypatch.undo()
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE


@pytest.mark.usefixtures("soon_slow")
def test_a_page_that_ends_a_renderer_late_is_not_tried_again(make_reader, keep, renderers):
    """It may do so each time, and each time as late."""
    reader = make_reader(render_timeout_s=60.0)
    with pytest.raises(InvalidDocument, match=r"\(SIGSEGV\)"):
        crash = Reading(on_slow=lambda: os.kill(renderers[0].pid, signal.SIGSEGV))
        reader.read_page(keep(bombs.function_shading()), 0, crash)


def test_an_answer_that_comes_with_the_first_line_is_read(make_reader, keep, monkeypatch):
    """As on a busy machine: the renderer is ready and has answered before this process looks."""
    waiting = Renderer.pump

    def look_late(self: Renderer, timeout_s: float) -> bool:
        wait_for(lambda: queued(self) > len(b"{}\n") or self._started)
        return waiting(self, timeout_s)

    monkeypatch.setattr(Renderer, "pump", look_late)
    assert make_reader().count_pages(good(keep)) == 1


def queued(renderer: Renderer) -> int:
    """Bytes that its pipe holds."""
    size = array.array("i", [0])
    fcntl.ioctl(renderer._answers, termios.FIONREAD, size)
    return size[0]


def test_a_renderer_that_answers_nonsense_is_not_believed(make_reader, keep, monkeypatch):
    reader = make_reader()
    taken = Renderer._take
    answer = b'{"height": 100000, "width": 100000}\n'
    assert reader.read_page(good(keep), 0).pixels.shape == GOOD_SHAPE
    monkeypatch.setattr(Renderer, "_take", lambda self, data: taken(self, answer if data else data))
    with pytest.raises(InvalidDocument, match="it sent a page of 100000 x 100000 pixels"):
        reader.read_page(good(keep), 0)


def test_a_renderer_gets_none_of_the_services_secrets(make_reader, monkeypatch, renderers):
    for name in ("PARSER_API_KEYS", "PARSER_VLM_API_KEY", "HF_TOKEN"):
        monkeypatch.setenv(name, "secret-of-the-service")
    make_reader()
    assert b"secret" not in Path(f"/proc/{renderers[0].pid}/environ").read_bytes()


def test_renderers_end_with_a_worker_that_is_killed(tmp_path):
    (tmp_path / "bomb").write_bytes(bombs.function_shading())
    program = """
import sys, docparser.documents.reader as reader
from docparser.documents.page import DocumentLimits
from docparser.documents.spool import Document
from docparser.opening import pictures
from docparser.settings import Settings
class Shown(reader.Renderer):
    def __init__(self, limits):
        super().__init__(limits)
        print(self.pid, flush=True)
reader.Renderer = Shown
reading = reader.Reading(on_slow=lambda: print("slow", flush=True))
reader.SLOW_S = 0.3
reader.DocumentReader(DocumentLimits.of(Settings())).read_page(Document(sys.argv[1], "PDF"), 0, reading)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "bomb")]
    with subprocess.Popen(command, env=child_environment(), stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        busy, idle = int(worker.stdout.readline()), int(worker.stdout.readline())
        assert worker.stdout.readline() == "slow\n"
        worker.kill()
        wait_for(lambda: gone(busy) and gone(idle))


@pytest.mark.usefixtures("soon_slow")
def test_the_kernel_ends_a_renderer_whose_worker_is_stuck(keep, make_reader, renderers):
    """The service ends it by its own clock before that. tests/bundle/test_bounded_child.py waits until the kernel
    does."""
    reader = make_reader(render_timeout_s=60.0)
    bounds: list[int] = []

    def at_the_bound() -> None:
        limits = Path(f"/proc/{renderers[0].pid}/limits").read_text().splitlines()
        bounds.extend(int(line.split()[3]) for line in limits if line.startswith("Max cpu time"))
        os.kill(renderers[0].pid, signal.SIGXCPU)

    with pytest.raises(DocumentTooSlow):
        reader.read_page(keep(bombs.function_shading()), 0, Reading(on_slow=at_the_bound))
    (bound_s,) = bounds
    assert 60 < bound_s < 75
