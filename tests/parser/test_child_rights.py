# SPDX-License-Identifier: Apache-2.0
"""A child that reads strangers' bytes reaches nothing but its libraries and what it was handed; and it reads them all.

The attempts run with the rights of each kind of child: as a job in a child of the pool, and in a process that has done
what a renderer does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pikepdf
import pytest
from PIL import Image, ImageCms

import isolation
from bounded_child import environment
from docparser.documents.decoder import read_frame
from docparser.documents.page import DocumentLimits
from docparser.documents.pdf import PdfReader
from docparser.documents.reader import DocumentReader
from docparser.documents.spool import Document
from docparser.sandbox.pool import ChildPool
from docparser.sandbox.process import Bounds, Reach, Zygote
from docparser.settings import Settings
from tests.support.attacks import HELD, attempts
from tests.support.child_jobs import JOBS
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tests.support.wait import WAIT_S

pytestmark = pytest.mark.server
LACKING = isolation.lacking()
isolated = pytest.mark.skipif(bool(LACKING), reason=f"this kernel lacks {' and '.join(LACKING)}")
BOUNDS = Bounds(cpu_s=WAIT_S, wall_s=WAIT_S, memory=256 << 20, output=4 << 20)
WITHOUT_PRIVILEGES = (sys.executable, "-m", "tests.support.without_privileges")
RENDERER = """
import json, sys
from docparser.documents.render_main import PACKAGE
from isolation import isolate
from tests.support.attacks import outcomes
isolate([PACKAGE])
print(json.dumps(outcomes(**json.loads(sys.argv[1]))))
"""
# Starts a process with a secret, which hides or not, and says what can be had of it.
SPY = """
import subprocess, sys
code = "import isolation, sys; sys.argv[1:] and isolation.hide(); print(flush=True); input()"
words = [sys.executable, "-c", code, *sys.argv[1:]]
victim = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
victim.stdout.readline()
for name, mode in (("environ", "rb"), ("mem", "rb+")):
    try:
        open(f"/proc/{victim.pid}/{name}", mode).close()
        print("open")
    except PermissionError:
        print("closed")
victim.kill()
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A process in the service's place, its data folder, and a port that somebody listens on."""
    (tmp_path / "links.key").write_bytes(b"key")
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as service,
    ):
        yield {"victim": service.pid, "data": str(tmp_path), "port": listening.getsockname()[1]}
        service.kill()
    assert (tmp_path / "links.key").read_bytes() == b"key" and os.listdir(tmp_path) == ["links.key"]
    assert not Path("/tmp/left-by-an-attack").exists()


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    pool = ChildPool(lambda: Zygote.spawn(JOBS), quick=1, most=1)
    yield pool
    pool.close()


def run(pool: ChildPool, job: str, content: bytes, reach: Reach | None = None) -> bytes:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as sink:
        source.write(content)
        source.seek(0)
        pool.run(job, {}, (source.fileno(), sink.fileno()), BOUNDS, job, reach=reach)
        sink.seek(0)
        return sink.read()


def test_the_attempts_succeed_for_who_is_not_isolated(target):
    """So what holds them is isolation. The others would do harm here."""
    tried = attempts(**target)
    signals = ("signal it", "have a pipe signal it", "choose a pipe's signal")
    for name in ("read the service's environment", "read links.key", "list jobs", "read /etc/passwd", *signals):
        tried[name]()
    for name in ("make a local socket", "connect by TCP", "send by UDP"):
        opened = tried[name]()
        if isinstance(opened, socket.socket):
            opened.close()


@isolated
@pytest.mark.parametrize("with_folder", [False, True])
def test_a_job_over_strangers_text_reaches_nothing(pool, target, tmp_path_factory, with_folder):
    reach = Reach(folder=str(tmp_path_factory.mktemp("own"))) if with_folder else None
    found = json.loads(run(pool, "attack", json.dumps(target).encode(), reach))
    assert {name: said for name, said in found.items() if said != HELD} == {}


@isolated
def test_a_renderer_reaches_nothing(target):
    words = [sys.executable, "-c", RENDERER, json.dumps(target)]
    done = subprocess.run(
        words, env=child_environment(OPENBLAS_NUM_THREADS="1"), capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == len(attempts(**target))
    assert {name: said for name, said in found.items() if said != HELD} == {}


@pytest.mark.skipif("seccomp" in LACKING, reason="this kernel lacks seccomp")
def test_a_kernel_without_landlock_leaves_reading_only(target):
    """What is named here stays possible: docs/secure.md says so. Without root, /proc is closed by hiding."""
    code = RENDERER.replace("isolate([PACKAGE])", "import isolation; isolation.landlock_version = lambda: 0; isolate()")
    words = [sys.executable, "-c", code, json.dumps(target)]
    environment = child_environment(OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    got = {name for name, said in json.loads(done.stdout).items() if said != HELD}
    proc = {"read the service's environment", "list its open files"}
    assert got - proc == {"read links.key", "list jobs", "read /etc/passwd"}


def test_a_job_opens_what_it_was_given_and_has_a_child_to_itself(pool, tmp_path):
    given, own = tmp_path / "given", tmp_path / "own"
    given.write_text("handed over")
    own.mkdir()
    before = run(pool, "echo", b"").split()[-1]
    name, mine, theirs = (
        run(pool, "use_folder", str(given).encode(), Reach((str(given),), str(own))).decode().split("\n")
    )
    assert (Path(name).parent, mine, theirs) == (own, "mine", "handed over")
    assert list(own.iterdir()) == []
    assert run(pool, "echo", b"").split()[-1] == before, "the child that waits was not used for it"


def test_a_process_with_threads_does_not_isolate_itself():
    code = (
        "import threading, time, isolation\nthreading.Thread(target=time.sleep, args=(1,)).start()\nisolation.isolate()"
    )
    done = subprocess.run([sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True)
    assert done.returncode == 1 and "2 threads" in done.stderr


@pytest.mark.parametrize(("word", "said"), [((), ["open", "open"]), (("hide",), ["closed", "closed"])])
def test_a_hidden_process_gives_others_of_its_user_nothing(word, said):
    words = [*WITHOUT_PRIVILEGES, sys.executable, "-c", SPY, *word]
    done = subprocess.run(words, env=child_environment(), capture_output=True, text=True, timeout=WAIT_S)
    assert done.stdout.split() == said, done.stderr


def test_a_childs_environment_is_a_list(monkeypatch):
    secrets = {"AWS_SECRET_ACCESS_KEY", "PGPASSWORD", "PARSER_CALLBACK_SECRETS", "VLM_API_KEY", "SOMEBODYS_TOKEN"}
    for name in secrets:
        monkeypatch.setenv(name, "s3cr3t")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    kept = environment(OPENBLAS_NUM_THREADS="2")
    assert not secrets & kept.keys()
    assert (kept["OMP_NUM_THREADS"], kept["OPENBLAS_NUM_THREADS"]) == ("1", "2")


@pytest.fixture(scope="module")
def reader() -> Iterator[DocumentReader]:
    reader = DocumentReader(DocumentLimits.of(Settings()))
    yield reader
    reader.close()


def documents(folder: Path) -> list[Document]:
    """All of tests/data; a font that is only named; a colour profile; each format of Pillow's."""
    found = [Document(str(path), path.suffix[1:].upper()) for path in sorted((ROOT / "tests/data").glob("*.p[dn][fg]"))]
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for format in ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF"):
        path = folder / f"page.{format}"
        icc = {"icc_profile": profile} if format in ("PNG", "JPEG", "TIFF", "WEBP") else {}
        Image.effect_mandelbrot((300, 200), (-2, -1, 1, 1), 20).convert("RGB").save(path, format, **icc)
        found.append(Document(str(path), format))
    return [*found, Document(str(named_font(folder / "named.pdf")), "PDF")]


def named_font(path: Path) -> Path:
    """A PDF in fonts that it names and does not hold."""
    names = (pikepdf.Name.Helvetica, pikepdf.Name.DejaVuSans)
    with pikepdf.new() as pdf:
        page = pdf.add_blank_page(page_size=(300, 100))
        for number, name in enumerate(names):
            font = pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.TrueType, BaseFont=name)
            page.add_resource(font, pikepdf.Name.Font, pikepdf.Name(f"/F{number}"))
        words = b" ".join(b"/F%d 20 Tf 10 %d Td (A line of text) Tj" % (at, 10 + 40 * at) for at in range(len(names)))
        page.contents_add(b"BT " + words + b" ET")
        pdf.save(path)
    return path


def test_an_isolated_renderer_reads_everything_as_before(reader, tmp_path):
    """Pixel by pixel what this process reads, which is not isolated."""
    limits, pages = DocumentLimits.of(Settings()), 0
    for document in documents(tmp_path):
        with document.opened() as opened:
            for index in range(reader.count_pages(document)):
                here = (
                    PdfReader().read_page(opened, index, limits)
                    if document.format == "PDF"
                    else read_frame(opened, index, limits)
                )
                assert np.array_equal(reader.read_page(document, index).pixels, here.pixels), (document.path, index)
                pages += 1
    assert pages > 10
