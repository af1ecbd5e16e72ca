# SPDX-License-Identifier: Apache-2.0
"""PDFs as PDFium reads them; what it refuses, qpdf may be able to write anew."""

from __future__ import annotations

import contextlib
import ctypes
import io
import mmap
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pypdfium2
from pypdfium2 import PdfiumError
from pypdfium2 import raw as pdfium

from docparser.opening import File, Unreadable

REPAIR_ERRORS = (PdfiumError, OSError, ValueError, RuntimeError)  # RuntimeError: qpdf's own, where pikepdf has none
IN_THE_ENCRYPTION = "(encryption dictionary,"  # where in the file qpdf met an error, as it says it
USER_UNIT = "/UserUnit"
# Either stands in every file whose pages have such a key: in the page, or in what may hide a page.
SIGNS_OF_UNITS = (USER_UNIT.encode(), b"/ObjStm")


class OpenPdf(NamedTuple):
    """``whole`` is False where PDFium refused the file: ``document`` is then what qpdf found in it."""

    document: pypdfium2.PdfDocument
    whole: bool


def open_pdf(file: str | Path | BinaryIO, mapped: ctypes.Array[ctypes.c_ubyte] | None = None) -> OpenPdf:
    """``mapped`` is what the file holds, where it is mapped already. Raises Unreadable for a file that is encrypted,
    protected or too damaged."""
    with contextlib.suppress(PdfiumError):
        return OpenPdf(pypdfium2.PdfDocument(file if mapped is None else mapped), whole=True)
    import pikepdf  # not at the top: a renderer starts in half the time without it, and few files need it

    # The reason is not PDFium's to say: of some files it reports the error of the file before.
    try:
        with pikepdf.open(file) as pdf, io.BytesIO() as anew:
            pdf.save(anew)
            return OpenPdf(pypdfium2.PdfDocument(anew.getvalue()), whole=False)
    except pikepdf.PasswordError:
        raise Unreadable("is encrypted; remove its password first") from None
    except (pikepdf.PdfError, *REPAIR_ERRORS) as exc:
        if IN_THE_ENCRYPTION in str(exc):
            raise Unreadable(
                "is protected in a way that is not read here, by a certificate or a shop's DRM for instance; "
                "print it to a new PDF"
            ) from None
        raise Unreadable("is damaged or has no pages") from None


ATTACHMENTS = "attachments"  # the kind of the note
# Of a PDF that is not whole.
DAMAGED = "the PDF is damaged, or its end is missing; what was found in it was read, and pages may be missing"


def attachments(pdf: pypdfium2.PdfDocument) -> int:
    """How many files a PDF carries; a portfolio is little else."""
    return pdfium.FPDFDoc_GetAttachmentCount(pdf)


def attached(count: int) -> str:
    """The note that says so."""
    files = "a file" if count == 1 else f"{count} files"
    return f"the PDF carries {files} of its own, not read here; take them out and send them"


class UserUnits:
    """The size of a unit of each page, in points, which PDFium does not tell (PDF 1.6)."""

    def __init__(self, file: File) -> None:
        self._units: dict[int, float] = {}
        with (
            open(file, "rb", closefd=not isinstance(file, int)) as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            if any(data.find(sign) >= 0 for sign in SIGNS_OF_UNITS):
                self._read(opened)

    def _read(self, file: BinaryIO) -> None:
        import pikepdf  # as above

        with contextlib.suppress(pikepdf.PdfError, *REPAIR_ERRORS), pikepdf.open(file) as pdf:
            for index, page in enumerate(pdf.pages):
                unit = page.obj.get(USER_UNIT)
                if isinstance(unit, int | float | Decimal) and unit > 0:
                    self._units[index] = float(unit)

    def __getitem__(self, index: int) -> float:
        return self._units.get(index, 1.0)
