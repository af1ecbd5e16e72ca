# SPDX-License-Identifier: Apache-2.0
"""How many words are wrong, and how often the VLM is asked, by what a page's own text is for (`textLayer`).

    PYTHONPATH=workshop .venvs/parser/bin/python workshop/benchmarks/bench_text_modes.py --each 3 \
        developers-reference.pdf=developers-reference.txt.gz debian-reference.zh-cn.pdf='ch*.zh-cn.html'

Each PDF comes with what it was made from, or another form of that: texts or HTML files (a pattern; `.gz` too). Where a
page's words stand there is found by the page's own text. A page counts only if the two have nearly the same words, and
the truth are the words that both have: HTML names sections where the PDF has their numbers. Pages left out are counted.

Wrong are words of the source that the answer lacks, and words of the answer that neither the source nor the page has
(headers and page numbers are not in the source), over the source's words. A word is a run of letters and digits, or an
ideograph; case counts, signs do not. The VLM's blocks are those of /metrics; pages are sent one at a time.
"""

from __future__ import annotations

import argparse
import collections
import glob
import gzip
import html
import io
import json
import re
import statistics
import sys
import time
import unicodedata
import urllib.request
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import pypdfium2

from demo_training.evaluate import parse
from percentiles import percentile

MODES = ("off", "check", "repair", "prefer")
WIDE = "\u2e80-\u9fff\uf900-\ufaff"
WORDS = re.compile(rf"[{WIDE}]|[^\W_{WIDE}]+")
ANCHOR = 4  # words in a row, which stand once in the source
LIKE = 0.96  # of a page's words that the source has there, and the other way round
LEAST_WORDS = 80
TRIED = 8  # pages for each that is judged
Place = tuple[int, int]


def words_of(text: str) -> list[str]:
    return WORDS.findall(unicodedata.normalize("NFKC", text).replace("\u00ad", ""))


def source_words(pattern: str) -> list[str]:
    texts = []
    for name in sorted(glob.glob(pattern)):
        data = Path(name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8", "replace")
        if ".htm" in name:
            text = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", " ", text)
            text = html.unescape(re.sub(r"</?(?:p|div|li|td|th|h\d|pre|dt|dd|br|tr|table)\b[^>]*>", " ", text))
            text = re.sub(r"<[^>]*>", "", text)
        texts.append(text)
    if not texts:
        raise SystemExit(f"{pattern}: no such file")
    return words_of("\n".join(texts))


def place_of(page: Sequence[str], source: Sequence[str], index: dict[tuple[str, ...], list[int]]) -> Place | None:
    """Where in the source the page's words stand; None if nearly the same words do not stand there."""
    found = []
    for at in range(len(page) - ANCHOR + 1):
        places = index.get(tuple(page[at : at + ANCHOR]), [])
        if len(places) == 1:
            found.append((at, places[0]))
    if len(page) < LEAST_WORDS or not found:
        return None
    middle = statistics.median_low(place for _, place in found)
    near = [(at, place) for at, place in found if abs(place - middle) < len(page)]
    (_, begin), (_, end) = near[0], near[-1]
    begin, end = max(0, begin), end + ANCHOR
    matched = matching(page, source[begin:end])
    if matched < LIKE * len(page) or matched < LIKE * (end - begin):
        return None
    return begin, end


def matching(a: Sequence[str], b: Sequence[str]) -> int:
    return sum(block.size for block in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks())


def in_both(page: Sequence[str], source: Sequence[str]) -> list[str]:
    matcher = SequenceMatcher(None, page, source, autojunk=False)
    return [word for block in matcher.get_matching_blocks() for word in source[block.b : block.b + block.size]]


def wrong(answer: Sequence[str], truth: Sequence[str], page: Sequence[str]) -> int:
    """Words of ``truth`` that the answer lacks, and words that it has beside those of ``truth`` and of the ``page``."""
    ops = SequenceMatcher(None, answer, truth, autojunk=False).get_opcodes()
    known = collections.Counter(page) - collections.Counter(
        word for tag, begin, end, _, _ in ops if tag == "equal" for word in answer[begin:end]
    )
    count = 0
    for tag, begin, end, other, last in ops:
        if tag != "equal":
            invented = 0
            for word in answer[begin:end]:
                invented += not known[word]
                known[word] -= known[word] > 0
            count += max(last - other, invented)
    return count


def one_page(pdf: pypdfium2.PdfDocument, index: int) -> bytes:
    single, buffer = pypdfium2.PdfDocument.new(), io.BytesIO()
    single.import_pages(pdf, [index])
    single.save(buffer)
    return buffer.getvalue()


def judged_pages(path: str, pattern: str, each: int) -> Iterable[tuple[bytes, list[str], list[str]] | None]:
    """Of a PDF, evenly over it: the page, its own words, those that the source has too; None for one left out."""
    source, pdf = source_words(pattern), pypdfium2.PdfDocument(path)
    places: dict[tuple[str, ...], list[int]] = collections.defaultdict(list)
    for at in range(len(source) - ANCHOR + 1):
        places[tuple(source[at : at + ANCHOR])].append(at)
    step, taken = max(1, len(pdf) // (TRIED * each)), 0
    for index in range(step // 2, len(pdf), step):
        if taken == each:
            return
        page = words_of(re.sub(r"[\ufffe\u0002]\s*", "", pdf[index].get_textpage().get_text_range()))
        place = place_of(page, source, places)
        if place is None:
            yield None
            continue
        taken += 1
        yield one_page(pdf, index), page, in_both(page, source[slice(*place)])


def blocks_asked(url: str) -> float:
    """Blocks that the VLM was asked about so far."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("docparser_blocks_total{"))


def text_of(pruned: dict) -> str:
    return "\n".join(re.sub(r"<[^>]*>", " ", html.unescape(block["block_content"])) for block in
                     pruned["parsing_res_list"])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Words wrong by what a page's own text is for.")
    parser.add_argument("documents", nargs="+", metavar="PDF=SOURCE", help="SOURCE: a file, or a pattern of files")
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="a running parser")
    parser.add_argument("--each", type=int, default=3, help="pages of each document")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    options = parser.parse_args()
    shares: dict[str, list[float]] = {mode: [] for mode in options.modes}
    seconds: dict[str, list[float]] = collections.defaultdict(list)
    asked: collections.Counter[str] = collections.Counter()
    sources: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    left_out = 0
    for document in options.documents:
        path, _, pattern = document.partition("=")
        for found in judged_pages(path, pattern, options.each):
            if found is None:
                left_out += 1
                continue
            page, own, truth = found
            for mode in options.modes:
                before, began = blocks_asked(options.url), time.monotonic()
                (pruned,) = parse(options.url, page, 0, options={"textLayer": mode})
                seconds[mode].append(time.monotonic() - began)
                asked[mode] += int(blocks_asked(options.url) - before)
                sources[mode].update(str(block.get("source")) for block in pruned["parsing_res_list"])
                shares[mode].append(wrong(words_of(text_of(pruned)), truth, own) / len(truth))
            told = ", ".join(f"{mode} {shares[mode][-1]:.1%}" for mode in options.modes)
            print(f"{Path(path).name}: {len(truth)} words, wrong: {told}", file=sys.stderr, flush=True)
    pages = len(next(iter(shares.values())))
    result = {
        mode: {
            "words_wrong_median": round(statistics.median(values), 4),
            "words_wrong_p90": round(percentile(values, 90), 4),
            "vlm_blocks_a_page": round(asked[mode] / pages, 1),
            "seconds_a_page": round(statistics.median(seconds[mode]), 2),
            "blocks": dict(sources[mode]),
        }
        for mode, values in shares.items()
    }
    print(json.dumps({"pages": pages, "left_out": left_out, "modes": result}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
