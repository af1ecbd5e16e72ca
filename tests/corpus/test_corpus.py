# SPDX-License-Identifier: Apache-2.0
"""scripts/parse_corpus.py on Ray in its own processes: real layout, simulated VLM servers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.dataset
import pyarrow.parquet
import pytest

from tests.corpus.conftest import Parse
from tests.support import corpus
from tests.support.s3 import S3Server
from tests.support.simulated_vlm import SimulatedVlm

# Each run starts Ray, and a parser for each of its readers.
pytestmark = [pytest.mark.server, pytest.mark.long]


def blocks_asked(vlms: list[SimulatedVlm]) -> int:
    return sum(request.get("max_tokens") != 1 for vlm in vlms for request in vlm.requests)


def without_ray(folder: Path) -> dict[str, str]:
    """With this environment Ray cannot be started on this machine: its files would lie below a file."""
    (folder / "no-folder").touch()
    return {"RAY_TMPDIR": str(folder / "no-folder")}


def test_documents_become_files_and_rows(parse: Parse, tmp_path: Path, vlms: list[SimulatedVlm]) -> None:
    corpus.make(tmp_path / "in", [1, 3, 7])
    (tmp_path / "in/bad.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    (tmp_path / "in/notes.txt").write_text("no document")

    done = parse("--pages-per-part", 3, "--formats", "md,json,chunks,docx,parquet")
    assert done.returncode == 1, "a document was set aside"
    assert "3 of 4 documents done, 1 set aside" in done.stderr
    assert "Left out: no document by its ending: 1 ('notes.txt')." in done.stderr

    out = tmp_path / "out"
    names = [f"00/{number:05d}.pdf" for number in range(3)]
    for name, pages in zip(names, (1, 3, 7), strict=True):
        stem = Path(name).stem
        files = {path.suffix for path in (out / name).iterdir() if path.is_file()}
        assert files == {".md", ".json", ".jsonl", ".docx"}, "chunks are lines of JSON"
        told = json.loads((out / name / f"{stem}.json").read_text())
        assert [page["page"] for page in told["pages"]] == list(range(1, pages + 1))
        for page in told["pages"]:
            assert {"page", "prunedResult", "markdown", "dataInfo", "models"} <= page.keys()
            assert page["dataInfo"]["type"] == "pdf"
        assert (out / name / f"{stem}.md").read_text().count("OCR:") >= pages
    assert min(len(vlm.requests) for vlm in vlms) > 0, "both servers have read"

    # A folder of Parquet files is one table for the programs that read such.
    table = pyarrow.dataset.dataset(out / "corpus.parquet").to_table()
    rows = sorted((row["document"], row["page"]) for row in table.to_pylist())
    assert rows == [(name, page) for name, pages in zip(names, (1, 3, 7), strict=True) for page in range(1, pages + 1)]
    (row,) = (row for row in table.to_pylist() if (row["document"], row["page"]) == (names[2], 7))
    assert row["text"] in (out / names[2] / "00002.md").read_text()
    assert row["model"] == "PaddleOCR-VL-0.9B" and not row["errors"] and row["seconds"] > 0
    assert row["blocks"] and all(len(block["box"]) == 4 and block["text"] for block in row["blocks"])

    (aside,) = (out / "_corpus/aside").rglob("*.json")
    assert "bad.pdf" in aside.name and "damaged" in json.loads(aside.read_text())["reason"]
    assert not list((out / "_corpus").rglob("*.jsonl")), "parts are removed once their document is done"
    summary = json.loads((out / "_corpus/summary.json").read_text())
    assert (
        summary["documents"] == {"done": 3, "set_aside": 1, "earlier": 0, "earlier_incomplete": 0}
        and summary["pages"]["read"] == 11
        and summary["left_out"] == {"no document by its ending": 1}
    )


def test_what_is_done_is_not_touched_again(parse: Parse, tmp_path: Path, vlms: list[SimulatedVlm]) -> None:
    corpus.make(tmp_path / "in", [2, 2, 2])
    assert parse().returncode == 0
    before = corpus.outputs(tmp_path / "out")
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/00").rglob("*") if path.is_file()}

    # One is changed; of another, the outputs were half written when the run was ended: they have no record.
    corpus.write_pdf(tmp_path / "in/00/00000.pdf", 1, 77)
    (record,) = (tmp_path / "out/_corpus/done/00").glob("00001.pdf@*.json")
    record.unlink()
    half = tmp_path / "out/00/00001.pdf/00001.md"
    half.write_text("half of a p")

    for vlm in vlms:
        vlm.requests.clear()
    again = parse()
    assert again.returncode == 0 and "2 documents to parse, 1 done earlier" in again.stderr
    after = corpus.outputs(tmp_path / "out")
    assert {name for name in before if before[name] != after[name]} == {
        "00/00000.pdf/00000.md",
        "00/00000.pdf/00000.json",
        "corpus.parquet/00/00000.pdf.parquet",
    }
    untouched = [path for path, when in times.items() if path.is_file() and path.stat().st_mtime_ns == when]
    assert {path.parent.name for path in untouched} == {"00002.pdf"}

    for vlm in vlms:
        vlm.requests.clear()
    nothing_left = parse(**without_ray(tmp_path))
    assert nothing_left.returncode == 0 and "0 documents to parse, 3 done earlier" in nothing_left.stderr
    assert not blocks_asked(vlms)


def test_from_a_bucket_to_a_bucket(parse: Parse, tmp_path: Path, s3: S3Server) -> None:
    """Both S3 servers are asked everything by test_storage.py."""
    corpus.make(tmp_path / "made", [1, 5])
    source, out = s3.bucket(), s3.bucket()
    client = s3.client()
    for path in (tmp_path / "made").rglob("*.pdf"):
        client.upload_file(str(path), source[5:].split("/")[0], f"site/one/{path.relative_to(tmp_path / 'made')}")
    done = parse("--pages-per-part", 2, source=source, out=out, **s3.environment)
    assert done.returncode == 0
    found = client.list_objects_v2(Bucket=out[5:].split("/")[0])["Contents"]
    names = sorted(entry["Key"].removeprefix("site/one/") for entry in found)
    assert [name for name in names if not name.startswith("_corpus")] == [
        "00/00000.pdf/00000.json",
        "00/00000.pdf/00000.md",
        "00/00001.pdf/00001.json",
        "00/00001.pdf/00001.md",
        "corpus.parquet/00/00000.pdf.parquet",
        "corpus.parquet/00/00001.pdf.parquet",
    ]
    again = parse(source=source, out=out, **s3.environment, **without_ray(tmp_path))
    assert again.returncode == 0 and "0 documents to parse, 2 done earlier" in again.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--formats", "md,epub"), "'epub' is not known"),
        (("--options", '{"restructurePages": true}'), "restructurePages"),
        (("--engines", "2"), "the cluster has 0 NPUs"),
    ],
)
def test_wrong_options(parse: Parse, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    corpus.make(tmp_path / "in", [1])
    done = parse(*words)
    assert done.returncode == 2 and told in done.stderr


def test_a_wrong_setting(parse: Parse, tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", [1])
    done = parse(PARSER_MAX_PAGES="many")
    assert done.returncode == 2 and "error: PARSER_MAX_PAGES is 'many'; expected a whole number" in done.stderr


@pytest.mark.parametrize(
    ("source", "told"),
    [("nowhere", "no such folder"), ("s3:///prefix", "names no bucket"), ("ftp://host/x", "expected a folder")],
)
def test_wrong_places(parse: Parse, source: str, told: str) -> None:
    done = parse(source=source)
    assert done.returncode == 2 and told in done.stderr


def test_servers_with_different_weights(parse: Parse, tmp_path: Path, vlms: list[SimulatedVlm]) -> None:
    corpus.make(tmp_path / "in", [1])
    vlms[1].root = "/models/demo/PaddleOCR-VL"
    done = parse(**without_ray(tmp_path))
    assert done.returncode == 2 and "expected servers with the same weights" in done.stderr


def test_nobody_reads(parse: Parse, tmp_path: Path, vlms: list[SimulatedVlm]) -> None:
    corpus.make(tmp_path / "in", [1])
    for vlm in vlms:
        vlm.healthy = False
    done = parse("--patience", 1, **without_ray(tmp_path))
    assert done.returncode == 4 and "no VLM server answers" in done.stderr
    assert not (tmp_path / "out/_corpus/done").exists()
