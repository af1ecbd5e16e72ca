# SPDX-License-Identifier: Apache-2.0
"""PDFs: opening, counting, rendering within the limits. PDFium is native code, so the search is led by our reader and
by inputs that are built from the words of the format.

PDFium ends its process on some inputs (`findings/pdf`), so each is read in a child. That the service outlives such an
input is tested with the service (tests/parser/test_bad_input.py); here, an end by a signal counts as read.
"""

from __future__ import annotations

import math
import os
import resource
import signal
import traceback

from tests.fuzz.choices import Choices
from tests.fuzz.targets.pictures import read
from tests.fuzz.verdict import CPU_SECONDS, Broken
from tests.support import damaged, samples

# Operators of content streams and keys of dictionaries: ISO 32000-1, annex A and tables of chapters 7, 8 and 12.
OPERATORS = (
    *("q", "Q", "0 0 10 10 re f", "1 0 0 1 5 5 cm", "0.0001 0 0 9999 0 0 cm", "/X Do", "/F1 12 Tf", "BT", "ET", "BI"),
    *("(text) Tj", "[(a) -9999 (b)] TJ", "/P scn", "/Pattern cs", "/Sh sh", "/G gs", "W n", "b*", "B", "n", "EMC"),
    *("/OC /M BDC", "ID \x00\xff EI", "1e30 w", "0 0 m 1e9 1e9 l S", "[1 1] 0 d", "99999 Tw", "7 Tr", "1 0 0 rg"),
    *("0 0 m 1 1 2 2 3 3 c", "/Cs1 CS", "-1 i", "9 J", "9 j", "0 0 0 0 k", "1 d1", "0 0 d0"),
)
ENTRIES = (
    *("/Rotate 90", "/UserUnit 1e9", "/Group << /S /Transparency >>", "/Annots [6 0 R]", "/CropBox [1 2 3 4]"),
    *("/MediaBox [0 0 0 0]", "/MediaBox [0 0 1e9 1e9]", "/Contents [4 0 R 4 0 R]", "/Parent 3 0 R", "/Count -1"),
    *("/Resources << /XObject << /X 4 0 R >> >>", "/Resources 3 0 R", "/AA << /O 5 0 R >>", "/Tabs /S"),
)
OBJECTS = (
    "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> >> /Length 5 >>\n"
    "stream\n/X Do\nendstream",
    "<< /Type /Annot /Subtype /Widget /FT /Tx /Rect [0 0 9 9] /V (a) /DA (/F1 0 Tf) >>",
    "<< /Type /XObject /Subtype /Image /Width 9 /Height 9 /BitsPerComponent 1 /ImageMask true /Length 1 >>\n"
    "stream\n0\nendstream",
    "<< /Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 1 1] /XStep 0.001 /YStep 0.001 "
    "/Length 14 >>\nstream\n0 0 1 1 re f\n\nendstream",
    "<< /ShadingType 1 /ColorSpace /DeviceRGB /Function << /FunctionType 4 /Domain [0 1 0 1] /Range [0 1 0 1 0 1] "
    "/Length 20 >> >>",
    "[ 6 0 R ]",
    "null",
)


# How PDFium ends a process: its own checks, a fault, out of memory, and the limit of processor time that is set here.
ENDS = (signal.SIGTRAP, signal.SIGILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGXCPU, signal.SIGKILL)


def target(data: bytes) -> None:
    document = data if data[:1] == b"%" else made(Choices(data))
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        report = b""
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(CPU_SECONDS),) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            read(document, "PDF")
        except BaseException:
            report = traceback.format_exc().encode()[-60_000:]
        finally:
            os.write(writing, report)
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        words = pipe.read()
    _, status = os.waitpid(child, 0)
    if words:
        raise Broken(words.decode(errors="replace").strip().splitlines()[-1][:120]) from RuntimeError(words.decode())
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) not in ENDS:
        raise Broken(f"a PDF ends its process with {signal.Signals(os.WTERMSIG(status)).name}")


def made(choices: Choices) -> bytes:
    """A PDF of one page, with a content, entries and objects that the bytes choose."""
    content = "\n".join(choices.one(OPERATORS) for _ in range(choices.below(40)))
    content = content * choices.one((1, 1, 1, 10, 50))
    more = " ".join(choices.one(ENTRIES) for _ in range(choices.below(4)))
    box = choices.one(("[0 0 300 400]", "[0 0 300 400]", "[0 0 1 100000]", "[5 5 5 5]", "[-9 -9 9 9]", "[0 0 NaN 1]"))
    places = b"/Font << /F1 5 0 R >> /XObject << /X 6 0 R >> /Pattern << /P 7 0 R >> /Shading << /Sh 8 0 R >>"
    names = b"/Resources << %s >>" % places
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox %s /Contents 4 0 R %s %s >>" % (
        box.encode(),
        more.encode(),
        names,
    )
    body = content.encode("latin-1", "replace")
    stream = b"<< /Length %d >>\nstream\n%s\nendstream" % (len(body), body)
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects = [choices.one(OBJECTS).encode("latin-1") for _ in range(3)]
    pages = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    return damaged.pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", pages, page, stream, font, *objects])


def seeds() -> list[bytes]:
    found = [samples.pdf_bytes((30, 40), (50, 20)), damaged.one_page(damaged.TEXT_PAGE), samples.blank_pages(1)]
    return [*found, *(bytes([number]) * 40 for number in range(1, 12))]
