# SPDX-License-Identifier: Apache-2.0
"""Documents of some kilobytes that would take a decoder minutes or gigabytes: each says what it aims at."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image, TiffImagePlugin

from tests.support.damaged import pdf_of

CATALOG = b"<< /Type /Catalog /Pages 2 0 R >>"
PAGES = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"


def stream(entries: bytes, content: bytes, *, packed: bool = False) -> bytes:
    if packed:
        entries, content = entries + b" /Filter /FlateDecode", zlib.compress(content, 9)
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(content), content)


def page(resources: bytes, more: bytes = b"", box: bytes = b"[0 0 595 842]") -> bytes:
    return b"<< /Type /Page /Parent 2 0 R /MediaBox %s /Contents 4 0 R /Resources << %s >> %s >>" % (
        box,
        resources,
        more,
    )


def form(content: bytes, resources: bytes = b"", more: bytes = b"") -> bytes:
    entries = b"/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << %s >> %s" % (resources, more)
    return stream(entries, content)


def nested_forms(depth: int = 9, width: int = 10) -> bytes:
    """Form XObjects nested ``depth`` deep, each drawn ``width`` times by the next: width ** depth rectangles."""
    objects = [CATALOG, PAGES, page(b"/XObject << /F 5 0 R >>"), stream(b"", b"/F Do\n" * width)]
    for level in range(1, depth):
        objects.append(form(b"/F Do\n" * width, b"/XObject << /F %d 0 R >>" % (5 + level)))
    objects.append(form(b"0 0 5 5 re f\n"))
    return pdf_of(objects)


def form_of_itself(width: int = 10) -> bytes:
    """A form XObject that draws itself ``width`` times."""
    own = form(b"/F Do " * width, b"/XObject << /F 5 0 R >>")
    return pdf_of([CATALOG, PAGES, page(b"/XObject << /F 5 0 R >>"), stream(b"", b"/F Do " * width), own])


def function_shading(steps: int = 20_000) -> bytes:
    """A shading whose colour at each pixel is a PostScript function of ``steps`` operations: time, and no memory that
    grows with it."""
    function = b"{ " + b"sin cos exch " * steps + b"pop }"
    shading = b"<< /ShadingType 1 /ColorSpace /DeviceGray /Domain [0 595 0 842] /Function 6 0 R >>"
    return pdf_of(
        [
            CATALOG,
            PAGES,
            page(b"/Shading << /S 5 0 R >>"),
            stream(b"", b"/S sh"),
            shading,
            stream(b"/FunctionType 4 /Domain [0 595 0 842] /Range [0 1]", function),
        ]
    )


def many_objects(count: int = 190_000) -> bytes:
    """A page of ``count`` large, dashed, transparent curves, just under PARSER_MAX_PDF_OBJECTS."""
    curve = b"0 0 m 595 842 0 842 595 0 c S\n"
    state = b"/ExtGState << /G << /CA 0.5 /ca 0.5 >> >>"
    content = b"/G gs [1 1] 0 d 0.1 w\n" + curve * count
    return pdf_of([CATALOG, PAGES, page(state), stream(b"", content, packed=True)])


def huge_cross_references(count: int = 8_000_000) -> bytes:
    """A cross-reference stream of ``count`` entries, packed three times: 400 bytes, a gigabyte."""
    data = bytes(count * 5)
    for _ in range(3):
        data = zlib.compress(data, 9)
    head = b"%%PDF-1.5\n1 0 obj\n%s\nendobj\n" % CATALOG
    entries = b"/Type /XRef /Size %d /W [1 3 1] /Root 1 0 R /Filter [%s]" % (count, b"/FlateDecode " * 3)
    table = b"7 0 obj\n%s\nendobj\n" % stream(entries, data)
    return head + table + b"startxref\n%d\n%%%%EOF\n" % len(head)


def masked_image(side: int = 30_000) -> bytes:
    """A small page with an image of ``side`` x ``side`` pixels, all zeros, and a soft mask of the same size."""
    header = b"/Type /XObject /Subtype /Image /Width %d /Height %d /BitsPerComponent 8" % (side, side)
    zeros = zlib.compressobj(9)
    data = b"".join(zeros.compress(bytes(side)) for _ in range(side)) + zeros.flush()
    data = zlib.compress(data, 9)
    filters = b" /Filter [/FlateDecode /FlateDecode]"
    image = header + b" /ColorSpace /DeviceGray /SMask 6 0 R" + filters
    mask = header + b" /ColorSpace /DeviceGray" + filters
    return pdf_of(
        [
            CATALOG,
            PAGES,
            page(b"/XObject << /I 5 0 R >>"),
            stream(b"", b"595 0 0 842 0 0 cm /I Do"),
            stream(image, data),
            stream(mask, data),
        ]
    )


def tiled_patterns(depth: int = 5) -> bytes:
    """A page filled with a pattern of tiny tiles that are filled with a pattern, and so on."""
    objects = [CATALOG, PAGES, page(b"/Pattern << /P 5 0 R >>"), stream(b"", b"/Pattern cs /P scn 0 0 595 842 re f")]
    entries = b"/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 100 100] /XStep 0.01 /YStep 0.01"
    for level in range(1, depth + 1):
        inner = b"/Resources << /Pattern << /P %d 0 R >> >>" % (5 + level) if level < depth else b"/Resources << >>"
        content = b"/Pattern cs /P scn 0 0 100 100 re f" if level < depth else b"0 0 1 1 re f"
        objects.append(stream(entries + b" " + inner, content))
    return pdf_of(objects)


def many_annotations(count: int = 20_000) -> bytes:
    """``count`` annotations whose appearance is one form of nested forms; no object of the page itself."""
    objects = [CATALOG, PAGES, page(b"", b"/Annots [%s]" % (b"5 0 R " * count)), stream(b"", b"")]
    objects.append(b"<< /Type /Annot /Subtype /Stamp /Rect [0 0 595 842] /F 4 /AP << /N 6 0 R >> >>")
    for level in range(3):
        objects.append(form(b"/F Do\n" * 30, b"/XObject << /F %d 0 R >>" % (7 + level)))
    objects.append(form(b"0 0 595 842 re f\n"))
    return pdf_of(objects)


def many_scans(side: int = 8_000, scans: int = 400) -> bytes:
    """A progressive JPEG of one colour, whose last scan is repeated: each one goes over all its blocks."""
    with io.BytesIO() as buffer:
        Image.new("L", (side, side), 128).save(buffer, "JPEG", progressive=True, quality=50)
        data = buffer.getvalue()
    start = data.rindex(b"\xff\xda")
    scan = data[start:-2]
    return data[:start] + scan * scans + data[-2:]


def tiff_chain(count: int = 200_000) -> bytes:
    """A TIFF of ``count`` directories, each of one pixel, that share one strip."""
    entries = [(256, 3, 1, 1), (257, 3, 1, 1), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8), (279, 4, 1, 1)]
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    size = len(body) + 4
    first = 16
    directories = b"".join(
        body + struct.pack("<I", first + size * (number + 1) if number + 1 < count else 0) for number in range(count)
    )
    return b"II*\0" + struct.pack("<I", first) + b"\x80" + bytes(7) + directories


def tiff_of_one_strip(side: int = 10_000) -> bytes:
    """A TIFF of floating-point zeros, packed: the largest picture for its size once it is grey."""
    with io.BytesIO() as buffer:
        image = Image.new("F", (side, side))
        info = TiffImagePlugin.ImageFileDirectory_v2()
        info[278] = side
        image.save(buffer, "TIFF", compression="tiff_adobe_deflate", tiffinfo=info)
        return buffer.getvalue()


def beside_good_pages(bomb: bytes) -> bytes:
    """The document ``bomb``, which has one page, as page 2 of three."""
    blank = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 400] >>"
    return bomb.replace(PAGES, b"<< /Type /Pages /Kids [1000 0 R 3 0 R 1001 0 R] /Count 3 >>").replace(
        b"\nxref", b"\n1000 0 obj\n%s\nendobj\n1001 0 obj\n%s\nendobj\nno-xref" % (blank, blank), 1
    )


SLOW = (nested_forms, form_of_itself, function_shading, many_objects, tiled_patterns, many_annotations, many_scans)
