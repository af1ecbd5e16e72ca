# SPDX-License-Identifier: Apache-2.0
"""The frame of a PDF file around its objects."""

from __future__ import annotations


def assemble(objects: list[bytes]) -> bytes:
    """A PDF file of these objects, numbered from 1; the first is its catalogue."""
    out, places = b"%PDF-1.5\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    size, table = len(objects) + 1, b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    return out + b"xref\n0 %d\n0000000000 65535 f \n" % size + table + end
