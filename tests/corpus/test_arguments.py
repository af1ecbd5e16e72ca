# SPDX-License-Identifier: Apache-2.0
"""The command line of scripts/parse_corpus.py, and how many readers a container has room for."""

from __future__ import annotations

import pytest

from corpus import arguments, cluster


@pytest.mark.parametrize(
    ("cores", "gibibytes", "readers"), [(640, 48, 32), (16, 48, 16), (640, None, 640), (4, 1, 1), (2, 2, 1)]
)
def test_no_more_readers_than_the_containers_memory_is_enough_for(
    cores: int, gibibytes: int | None, readers: int
) -> None:
    assert cluster.cores_for_readers(cores, gibibytes and gibibytes << 30) == readers


def test_the_command_line_and_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "VALUES", {"VLM_PORT": "8123", "VLM_FURTHER_URLS": "http://b/v1, http://c/v1,"})
    plain = arguments.parse(["in", "--out", "s3://bucket/out"])
    assert plain == arguments.Options(
        source="in",
        out="s3://bucket/out",
        ray="",
        vlms=("http://127.0.0.1:8123/v1", "http://b/v1", "http://c/v1"),
        engines=0,
        formats=("md", "json", "parquet"),
        request={},
        pages_per_part=16,
        patience_s=600,
        retry_failed=False,
        cpus=0,
        threads=1,
        dashboard=False,
    )
    assert arguments.Options.from_json(plain.as_json()) == plain
    words = (
        "in --out out --ray head:6379 --vlm-url http://x/v1/ --vlm-url http://x/v1 --engines 1 --formats md,,md,docx"
    )
    words += " --pages-per-part 1 --patience 0.5 --retry-failed --cpus 3 --threads 2 --dashboard"
    chosen = arguments.parse([*words.split(), "--options", '{"useLayoutDetection": false}'])
    assert chosen == arguments.Options(
        *("in", "out", "head:6379", ("http://x/v1",), 1, ("md", "docx"), {"useLayoutDetection": False}),
        *(1, 0.5, True, 3, 2, True),
    )
    assert arguments.parse(["in", "--out", "out", "--engines", "2"]).vlms == (), "the run's own"
    assert arguments.parse(["in", "--out", "out", "--formats", ","]).formats == ("json",)
    monkeypatch.setattr(arguments, "VALUES", {"VLM_HOST": "10.0.0.7"})
    assert arguments.parse(["in", "--out", "out"]).vlms == ("http://10.0.0.7:8000/v1",)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--cpus -1", "expected 0 or more"),
        ("--engines -1", "expected 0 or more"),
        ("--threads 0", "expected at least 1"),
        ("--pages-per-part 0", "expected at least 1"),
        ("--vlm-url localhost:8000", "--vlm-url localhost:8000: expected"),
        ("--formats md,epub", "'epub' is not known"),
    ],
)
def test_a_command_line_that_cannot_be(capsys: pytest.CaptureFixture[str], words: str, told: str) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["in", "--out", "out", *words.split()])
    assert ended.value.code == 2 and told in capsys.readouterr().err
