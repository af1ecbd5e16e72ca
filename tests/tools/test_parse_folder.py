# SPDX-License-Identifier: Apache-2.0
"""parse_folder.py against a simulated parser: which pages it sends, which it sends again, and what it reports."""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pikepdf
import pytest
from PIL import Image

from batch import __main__ as program
from batch.inputs import collect
from bundle import paths
from tests.support.numbered_pages import NumberedPagesParser, noise, numbered_pdf
from tests.support.paths import ROOT
from tests.support.processes import child_environment
from tests.support.wait import wait_for
from tool_errors import UsageError


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A folder with a PDF of three pages, an image in a folder of its own, a TIFF of two pages, and what is no
    document."""
    (tmp_path / "in/scans").mkdir(parents=True)
    (tmp_path / "in/book.pdf").write_bytes(numbered_pdf(3))
    Image.new("RGB", (611, 50), "white").save(tmp_path / "in/scans/book.png")
    frames = [Image.new("L", (600 + number, 50), "white") for number in (21, 22)]
    frames[0].save(tmp_path / "in/fax.TIF", "TIFF", save_all=True, append_images=frames[1:])
    (tmp_path / "in/notes.txt").write_text("no document")
    return tmp_path / "in"


def numbered_picture(number: int) -> bytes:
    return saved([Image.new("L", (600 + number, 50), "white")], "PNG")


def frames(format: str, count: int, **options: str) -> bytes:
    """A picture of so many pages, of two colours."""
    return saved([Image.new("1", (621 + number, 50), number % 2) for number in range(count)], format, **options)


def saved(pages: list[Image.Image], format: str, **options: str) -> bytes:
    sink = io.BytesIO()
    pages[0].save(sink, format, **({"save_all": True, "append_images": pages[1:]} if pages[1:] else {}), **options)
    return sink.getvalue()


def encrypted(pdf: bytes) -> bytes:
    sink = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as document:
        document.save(sink, encryption=pikepdf.Encryption(owner="o", user="u"))
    return sink.getvalue()


def state(folder: Path) -> dict:
    return json.loads((folder / ".parse/state.json").read_text())


def test_a_folder_then_again_then_with_a_changed_file(parse, archive, parser):
    done = parse("in")
    assert done.returncode == 0
    assert "3 of 3 documents complete. Pages: 6 parsed" in done.stdout
    assert dict(parser.seen) == {1: 1, 2: 1, 3: 1, 11: 1, 21: 1, 22: 1}
    out = archive.parent / "out"
    text = (out / "book.pdf/book.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# Page 1", "# Page 2", "# Page 3"]
    assert "images/00002-img_in_image_box_10_310_110_410.jpg" in text
    assert (out / "book.pdf/images/00002-img_in_image_box_10_310_110_410.jpg").read_bytes()[:2] == b"\xff\xd8"
    document = json.loads((out / "book.pdf/book.json").read_text())
    assert [page["page"] for page in document["pages"]] == [1, 2, 3] and document["numPages"] == 3
    assert (out / "scans/book.png/book.md").is_file() and (out / "fax.TIF/fax.md").is_file()

    parser.seen.clear()
    done = parse("in")
    assert done.returncode == 0 and not parser.seen and "6 earlier" in done.stdout

    (archive / "book.pdf").write_bytes(numbered_pdf(2))
    assert parse("in").returncode == 0
    assert dict(parser.seen) == {1: 1, 2: 1}
    assert "Page 3" not in (out / "book.pdf/book.md").read_text()


def test_another_format_needs_no_parser(parse, archive, parser):
    parse("in/book.pdf")
    parser.close()
    assert parse("in/book.pdf", "--formats", "md,xlsx").returncode == 0
    assert (archive.parent / "out/book.pdf/book.xlsx").is_file()


def test_patterns_and_files(parse, archive, parser):
    assert parse("in/**/*.png", "in/fax.TIF").returncode == 0
    assert sorted(parser.seen) == [11, 21, 22]
    assert (archive.parent / "out/scans/book.png/book.md").is_file()


def test_a_pattern_leaves_out_the_results(archive, monkeypatch):
    """A second run does not parse what the first one wrote, unless these files are what is asked for."""
    monkeypatch.chdir(archive.parent)
    written = Path("out/book.png/images/1.png")
    written.parent.mkdir(parents=True)
    written.write_bytes(numbered_picture(1))

    def paths(word: str, out: str) -> list[str]:
        return [str(one.path) for one in collect([word], Path(out))[0]]

    assert paths("**/*.png", "out") == paths("in/**/*.png", ".") == ["in/scans/book.png"]
    assert paths("out/book.png/images/*.png", "out") == [str(written)]


def test_results_have_no_place_where_a_file_is(archive, monkeypatch):
    monkeypatch.chdir(archive)
    said = "--out .: the results of scans/book.png need the folder scans/book.png, but scans/book.png is a file"
    with pytest.raises(UsageError, match=said):
        collect(["*/*.png"], Path("."))


def test_what_is_left_out_is_counted_once_and_only_if_no_word_names_it(archive, tmp_path):
    scan = tmp_path / "in/scans/scan"
    scan.write_bytes(numbered_picture(1))
    (tmp_path / "in/scans/notes.txt").write_text("no document")

    def left_out(*words: Path) -> list[str]:
        return [str(one.name) for one in collect(list(map(str, words)), tmp_path / "out")[1]]

    assert left_out(archive) == ["notes.txt", "scans/notes.txt", "scans/scan"]
    assert left_out(archive, scan) == left_out(scan, archive) == ["notes.txt", "scans/notes.txt"]
    assert left_out(archive / "scans", archive) == ["scans/notes.txt", "scans/scan", "notes.txt"]


def test_a_folder_that_may_be_listed_but_not_entered_costs_only_its_own_files(archive):
    """What `chmod -R 644` leaves."""
    closed = archive / "closed"
    closed.mkdir()
    (closed / "a.pdf").write_bytes(numbered_pdf(1))
    (closed / "link").symlink_to("..")
    closed.chmod(0o644)
    code = (
        "import sys; from pathlib import Path; from batch.inputs import collect\n"
        "for word in sys.argv[1:]:\n"
        "    documents, left_out = collect([word], Path('out'))\n"
        "    print(len(documents), sorted((str(one.name), one.reason) for one in left_out))"
    )
    words = [sys.executable, "-m", "tests.support.without_privileges", sys.executable, "-c", code]
    try:
        done = subprocess.run(
            [*words, archive, archive / "**/*.pdf"], env=child_environment(), capture_output=True, text=True
        )
        refused = subprocess.run([*words, closed], env=child_environment(), capture_output=True, text=True)
    finally:
        closed.chmod(0o755)
    folder, pattern = done.stdout.splitlines()
    assert folder.startswith("3 ") and "('closed/a.pdf', 'cannot be read (Permission denied)')" in folder, done.stderr
    assert pattern.startswith("1 ") and "closed/a.pdf" in pattern
    assert "UsageError" in refused.stderr and f"{closed}/a.pdf cannot be read (Permission denied)" in refused.stderr


def test_failed_pages_are_named_and_only_retried_when_asked(parse, archive, parser):
    parser.script = {2: [422], 3: [500, 500, 500]}
    parser.notes = {1}
    done = parse("in/book.pdf")
    assert done.returncode == 1
    assert "1 document, 3 pages; 3 pages to parse" in done.stderr
    assert "told to answer 422" in done.stdout and "3 tries" in done.stdout and "the VLM broke" in done.stdout
    assert "Pages: 1 parsed" in done.stdout and "2 missing, 1 incomplete" in done.stdout
    text = (archive.parent / "out/book.pdf/book.md").read_text()
    assert "# Page 1" in text and "page 2 is missing" in text
    report = json.loads((archive.parent / "out/report.json").read_text())
    assert [trouble["page"] for trouble in report["documents"][0]["trouble"]] == [1, 2, 3]

    parser.seen.clear()
    assert parse("in/book.pdf").returncode == 1 and not parser.seen
    parser.notes = set()
    done = parse("in/book.pdf", "--retry-failed")
    assert done.returncode == 0 and dict(parser.seen) == {1: 1, 2: 1, 3: 1}
    assert "# Page 2" in (archive.parent / "out/book.pdf/book.md").read_text()


def test_doubtful_blocks_are_counted_and_listed(parse, archive, parser):
    parser.doubts = {1: [1, 0.4199, None], 3: [0.5]}
    done = parse("in/book.pdf")
    assert done.returncode == 0, "they are there"
    assert "doubtful: book.pdf, page 1: block 1 (text, 0.42), block 2 (text, cut)" in done.stdout
    assert "3 parsed" in done.stdout and "0 incomplete. Doubtful blocks: 3." in done.stdout
    report = archive.parent / "out/report.json"
    first = {"page": 1, "block": 1, "label": "text", "confidence": 0.4199, "agreement": None}
    (document,) = json.loads(report.read_text())["documents"]
    assert document["doubtful"][0] == first and [one["page"] for one in document["doubtful"]] == [1, 1, 3]

    parser.seen.clear()
    assert "Doubtful blocks: 3." in parse("in/book.pdf").stdout and not parser.seen, "a later run knows them"
    parser.doubts = {1: [1], 3: [1]}
    assert "Doubtful" not in parse("in/book.pdf", "--options", '{"visualize2": 1}').stdout


def test_whose_letters_the_blocks_have_is_counted(parse, archive, parser):
    parser.sources = {1: ["page", "page", "vlm"], 3: ["page"]}
    said = "Blocks: 3 with the page's own text, 1 by the VLM."
    assert said in parse("in/book.pdf").stdout
    assert said in parse("in/book.pdf").stdout, "a later run knows it"
    (document,) = json.loads((archive.parent / "out/report.json").read_text())["documents"]
    assert document["sources"] == {"page": 3, "vlm": 1}


def test_a_busy_or_dropping_parser_gets_the_page_again(parse, archive, parser):
    parser.script = {1: [429, 429, 503], 2: ["drop", 502]}
    assert parse("in/book.pdf").returncode == 0
    assert parser.seen[1] == 4 and parser.seen[2] == 3


def test_a_page_that_the_vlm_never_takes_is_given_up(parse, archive, parser):
    parser.script = {2: [503] * 50}
    done = parse("in/book.pdf")
    assert done.returncode == 1 and parser.seen[2] == 6 and "told to answer 503" in done.stdout


def test_thirty_odd_files_are_all_accounted_for(parse, tmp_path, parser):
    folder = tmp_path / "in"
    (folder / "inner").mkdir(parents=True)
    png = numbered_picture(11)
    pdf = numbered_pdf(2)
    read = {
        b"book.pdf": pdf,
        b"UPPER.PDF": pdf,
        b"inner/book.pdf": pdf,
        b"page.png": png,
        b"word.docx.png": png,
        b"gbk\xb7\xa2.png": png,
        b"x" * 246 + b".png": png,
        "发票.png".encode(): png,
        b"a\nb.png": png,
        b"-rf.png": png,
        b" .png": png,
        b"fax.tif": frames("TIFF", 2, compression="group4"),
        b"turning.gif": frames("GIF", 2),
    }
    unreadable = {
        b"broken.pdf": b"%PDF-1.7 nothing",
        b"encrypted.pdf": encrypted(pdf),
        b"empty.pdf": b"",
        b"word.pdf": b"PK\3\4",
        b"cut.png": png[:40],
        b"text.png": b"no picture",
    }
    left_out = {
        b"notes.txt": b"no document",
        b"letter.docx": b"PK\3\4",
        b"photo.heic": b"\0\0\0\x20ftypheic",
        b"scan.dat": png,
        b"no_ending": b"",
        b".hidden.png": png,
        b"Thumbs.db": b"\xd0\xcf\x11\xe0",
        b"archive.zip": b"PK\3\4",
    }
    for name, content in {**read, **unreadable, **left_out}.items():
        (folder / os.fsdecode(name)).write_bytes(content)
    (folder / "nowhere.pdf").symlink_to("missing.pdf")
    (folder / "round.pdf").symlink_to("round.pdf")
    os.mkfifo(folder / "pipe.pdf")
    (folder / "up").symlink_to("..")
    (folder / ".git").mkdir()
    (folder / "linked.png").symlink_to("page.png")
    count = len(read) + 1 + len(unreadable) + len(left_out) + 5
    assert count >= 30
    done = parse("in")
    report = json.loads((tmp_path / "out/report.json").read_text())
    named = {one["document"] for one in report["documents"]} | {one["file"] for one in report["left_out"]}
    assert len(named) == len(report["documents"]) + len(report["left_out"]) == count, sorted(named)
    complete = {one["document"] for one in report["documents"] if one["complete"]}
    assert complete == {*map(os.fsdecode, read), "linked.png"}, done.stdout
    troubles = {one["document"]: one["trouble"][0]["reason"] for one in report["documents"] if not one["complete"]}
    for document, words in {
        "broken.pdf": "is damaged or has no pages",
        "empty.pdf": "is empty",
        "word.pdf": "a ZIP archive",
    }.items():
        assert words in troubles[document] and words in done.stdout
    reasons = {one["file"]: one["reason"].partition(";")[0] for one in report["left_out"]}
    assert all(reasons.values())
    expected = {
        "notes.txt": "has an unknown format",
        "photo.heic": "is a HEIC photo, which is not read",
        "scan.dat": "is a PNG by its content, not by its name's ending",
        ".hidden.png": "is hidden",
        "pipe.pdf": "is no file",
    }
    assert reasons.items() >= expected.items()
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{len(read) + 1} of {len(read) + len(unreadable) + 1} documents complete."), last
    kinds = ".dat, .db, .docx, .heic, .pdf, .png, .txt, .zip, no ending"
    assert f"Left out: {len(left_out) + 5} files ({kinds});" in last and done.returncode == 1


def test_names_of_any_bytes_are_parsed(parse, archive, parser):
    source = (archive / "scans/book.png").read_bytes()
    names = (b"gbk\xb7\xa2.png", "发".encode() * 80 + b".png", b"x" * 251 + b".png", b"a\nb.png")
    for name in (*names, b"z.png"):
        (archive / os.fsdecode(name)).write_bytes(source)
    assert parse("in", "--formats", "md,json,chunks,docx,pdf").returncode == 0
    done = parse("in", "--formats", "md,json,chunks,docx,pdf")
    assert done.returncode == 0 and "8 of 8 documents complete" in done.stdout, done.stdout
    documents = {one["document"] for one in report_of(archive)["documents"]}
    for document in map(os.fsdecode, names):
        assert document in documents
        written = sorted(path.suffix for path in (archive.parent / "out" / document).iterdir() if path.is_file())
        assert written == [".docx", ".json", ".jsonl", ".md", ".pdf"], document


def report_of(archive: Path) -> dict:
    return json.loads((archive.parent / "out/report.json").read_text())


def test_pages_are_named_by_their_numbers_in_the_document(parse, archive, parser):
    parser.script, parser.says = {3: [422]}, "file: page 1 of the PDF cannot be rendered"
    done = parse("in")
    assert done.returncode == 1
    (trouble,) = next(one for one in report_of(archive)["documents"] if one["document"] == "book.pdf")["trouble"]
    assert trouble["page"] == 3 and "page 3 of the PDF cannot be rendered" in trouble["reason"]


def test_several_parsers_share_the_pages(parse, archive, parser, tmp_path):
    (archive / "book.pdf").write_bytes(numbered_pdf(12))
    second = NumberedPagesParser()
    parser.together = second.together = 2
    try:
        assert parse("in/book.pdf", "--server", second.url, "--concurrency", 2).returncode == 0
    finally:
        second.close()
    assert parser.seen and second.seen and sorted(parser.seen + second.seen) == list(range(1, 13))
    assert parser.most_in_flight == second.most_in_flight == 2


def test_one_of_two_parsers_is_away(parse, archive, parser):
    done = parse("in", "--server", "http://127.0.0.1:9", "--patience", 3)
    assert done.returncode == 0 and "cannot be reached" in done.stderr and parser.seen.total() == 6


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["absent"], 2, "absent: no such file"),
        (["in", "--formats", "rtf"], 2, "'rtf' is not known"),
        (["in", "--options", "{"], 2, "--options: not JSON"),
        (["in", "--options", '{"file": 1}'], 2, "file is set by this program"),
        (["in/scans/book.png", "other/book.png"], 2, "would both be written to"),
        (["in", "--server", "ftp://x"], 2, "expected a URL"),
    ],
)
def test_wrong_arguments(parse, archive, words, status, message):
    (archive.parent / "other").mkdir()
    Image.new("RGB", (612, 50)).save(archive.parent / "other/book.png")
    done = parse(*words)
    assert done.returncode == status and message in done.stderr


def test_no_parser_at_all(parse, archive, parser):
    parser.close()
    done = parse("in")
    assert done.returncode == 4 and "no parser is ready" in done.stderr


def test_without_an_address_this_bundles_parser_is_asked_where_it_listens(archive, monkeypatch, capsys):
    monkeypatch.setattr(paths, "VALUES", {"PARSER_BIND": "127.0.0.9", "PARSER_PORT": "9"})
    monkeypatch.chdir(archive.parent)
    monkeypatch.setattr(sys, "argv", "parse_folder.py in --out out".split())
    assert program.main() == 4
    assert "not ready: http://127.0.0.9:9: cannot be reached" in "".join(capsys.readouterr())


def test_what_cannot_be_written_is_one_line(archive, monkeypatch, capsys):
    """A full disk, say. It does not hide why the run ended."""
    monkeypatch.chdir(archive.parent)
    monkeypatch.setattr(sys, "argv", "parse_folder.py in --out out --server http://127.0.0.1:9".split())
    Path("out/report.json").mkdir(parents=True)
    assert program.main() == 4 and "error: no parser is ready" in capsys.readouterr().err
    Path("out/fax.TIF").rename("out/elsewhere")
    Path("out/fax.TIF").mkdir()
    Path("out/fax.TIF/.parse").write_text("in the way")
    assert program.main() == 2
    assert (
        capsys.readouterr().err
        == "error: out/fax.TIF/.parse/pages: Not a directory; run the same command again to go on\n"
    )


@pytest.mark.parametrize(("kept_running", "status"), [(False, 130), (True, 7)])
def test_a_closed_terminal_ends_the_run_but_not_with_nohup(monkeypatch, kept_running, status):
    async def parse_folder(options: argparse.Namespace) -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0 if kept_running else 60)
        return 7

    monkeypatch.setattr(program, "parse_folder", parse_folder)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if kept_running else lambda *_: None)
    try:
        assert asyncio.run(program.interruptible(argparse.Namespace())) == status
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_key(parse, archive, parser):
    parser.key = "k1"
    done = parse("in/book.pdf")
    assert done.returncode == 2 and "PARSER_API_KEY" in done.stderr
    assert parse("in/book.pdf", PARSER_API_KEY="k1").returncode == 0


def start(tmp_path: Path, parser: NumberedPagesParser) -> subprocess.Popen:
    command = [sys.executable, str(ROOT / "scripts/parse_folder.py"), "in", "--out", "out", "--server", parser.url]
    return subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_at_its_next_page(parse, tmp_path, parser, signum):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/long.pdf").write_bytes(numbered_pdf(30))
    parser.most = 6
    process = start(tmp_path, parser)
    pages = tmp_path / "out/long.pdf/.parse/pages"
    wait_for(lambda: len(list(pages.glob("[0-9]*.json"))) == 6)
    os.kill(process.pid, signum)
    _, stderr = process.communicate(timeout=60)
    if signum != signal.SIGKILL:
        assert process.returncode == 130 and "interrupted" in stderr and "Traceback" not in stderr
    kept = {int(path.stem) for path in pages.glob("[0-9]*.json")}
    assert len(kept) == 6
    parser.most = None
    wait_for(lambda: not parser.in_flight)
    parser.seen.clear()
    assert parse("in").returncode == 0
    assert set(parser.seen) == set(range(1, 31)) - kept, "nothing is parsed twice"
    text = (tmp_path / "out/long.pdf/long.md").read_text()
    assert [line for line in text.splitlines() if line.startswith("# ")] == [f"# Page {n}" for n in range(1, 31)]


def test_what_nobody_has_read_is_not_complete(parse, archive, tmp_path, parser):
    """The parser goes away after some pages."""
    parser.most = 2
    process = start(tmp_path, parser)
    wait_for(lambda: len(list((tmp_path / "out").glob("*/.parse/pages/[0-9]*.json"))) == 2)
    process.terminate()
    stdout, _ = process.communicate(timeout=60)
    report = json.loads((tmp_path / "out/report.json").read_text())["documents"]
    unread = sum(one["unread"] for one in report)
    assert unread == sum(one["pages"] for one in report) - 2 and f", {unread} not read yet." in stdout
    assert f"{sum(one['complete'] for one in report)} of {len(report)} documents complete" in stdout
    assert all(one["complete"] == (not one["unread"]) for one in report)
    parser.most = None
    assert "not read yet" not in parse("in").stdout


def test_a_record_that_is_empty_or_broken_is_no_page(parse, archive, parser):
    """A power cut may leave an empty file; a failing disk others."""
    assert parse("in/book.pdf").returncode == 0
    records = archive.parent / "out/book.pdf/.parse/pages"
    (records / "00002.json").write_bytes(b"")
    parser.seen.clear()
    assert parse("in/book.pdf").returncode == 0 and dict(parser.seen) == {2: 1}
    (records / "00003.json").write_bytes(b"\0" * 9)
    done = parse("in/book.pdf", "--formats", "md,json,chunks")
    assert done.returncode == 1 and "0 of 1 document complete" in done.stdout and "1 missing" in done.stdout
    assert "its record cannot be read" in done.stdout
    done = parse("in/book.pdf", "--retry-failed")
    assert done.returncode == 0 and dict(parser.seen) == {2: 1, 3: 1}


def test_two_runs_do_not_write_to_one_folder(parse, archive, parser):
    (archive.parent / "out").mkdir()
    with (archive.parent / "out/.parse_folder.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = parse("in")
    assert done.returncode == 2 and "another run" in done.stderr and not parser.seen


def peak_memory(tmp_path: Path, parser: NumberedPagesParser, pages: int) -> tuple[int, int]:
    """Bytes that the program takes at most for a document of so many pages, and bytes of the outputs it writes."""
    source, out = tmp_path / f"{pages}.pdf", tmp_path / str(pages)
    source.write_bytes(numbered_pdf(pages, wider=0))
    code = (
        "import resource, runpy, sys\n"
        "sys.argv = ['parse_folder', *sys.argv[1:]]\n"
        "try: runpy.run_module('batch', run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    words = [source, "--out", out, "--server", parser.url, "--formats", "md,json,pdf,layout", "--concurrency", 4]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = sum(path.stat().st_size for path in (out / source.name).glob(f"{pages}.*"))
    return 1024 * int(done.stdout.split("peak ")[1]), written


@pytest.mark.long
def test_memory_does_not_grow_with_the_pages(tmp_path, parser):
    """The second half of a document needs almost no more memory than its first half, in every phase of the work."""
    parser.drawing = noise(800, 600)
    peak_memory(tmp_path, parser, 10)  # so that both are measured with compiled bytecode
    half, half_written = peak_memory(tmp_path, parser, 80)
    whole, whole_written = peak_memory(tmp_path, parser, 160)
    second = whole_written - half_written
    print(f"80 pages: {half >> 20} MiB, 160 pages: {whole >> 20} MiB; the second half wrote {second >> 20} MiB")
    assert second > 80 * len(parser.drawing) / 2, "the drawings are in the outputs"
    # A program that holds pages until the end, or builds one output in memory, grows by half of this or more.
    assert whole - half < second / 4
