# SPDX-License-Identifier: Apache-2.0
"""Files that no parser should fall over: mutated PDFs and images, bombs, absurd boxes; the same for the same number."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Callable

from tests.support import samples

TEXT_PAGE = b"BT /F1 24 Tf 50 700 Td (A line of print) Tj ET"


def pdf_of(objects: list[bytes]) -> bytes:
    out, offsets = b"%PDF-1.5\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    start = len(out)
    return out + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        len(objects) + 1,
        start,
    )


def one_page(content: bytes, *, box: bytes = b"[0 0 300 400]", filters: bytes = b"", more: bytes = b"") -> bytes:
    stream = b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), filters, content)
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox %s /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> %s >>"
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    pages = b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>"
    return pdf_of([b"<< /Type /Catalog /Pages 2 0 R >>", pages, page % (box, more), stream, font])


def absurd_box(chance: random.Random) -> bytes:
    numbers = [
        "0",
        "-1",
        "1e30",
        "-99999999",
        "0.0000001",
        "NaN",
        "14400",
        "200000",
        "/Name",
        "null",
        "(text)",
        "1 0 R",
    ]
    box = " ".join(chance.choice(numbers) for _ in range(chance.choice([2, 4, 4, 4, 6])))
    return one_page(TEXT_PAGE, box=f"[{box}]".encode(), more=f"/Rotate {chance.choice([0, 45, 90, 1e9, -7])}".encode())


def stream_bomb(chance: random.Random) -> bytes:
    """A content stream that grows a thousandfold when it is unpacked, twice if need be."""
    data = chance.choice([b" ", b"q ", b"0 0 m ", b"("]) * chance.randrange(100_000, 1_000_000)
    times = chance.choice([1, 2])
    for _ in range(times):
        data = zlib.compress(data)
    return one_page(data, filters=b"/Filter [%s]" % b" ".join([b"/FlateDecode"] * times))


def many_objects(chance: random.Random) -> bytes:
    count = chance.randrange(1_000, 40_000)
    return one_page(b"0 0 1 1 re f\n" * count)


def many_pages(chance: random.Random) -> bytes:
    """Says that it has more pages than it has."""
    count = chance.choice([-1, 0, 7, 100_000, 2**31, 2**63])
    body = one_page(TEXT_PAGE)
    return body.replace(b"/Count 1", b"/Count %d" % count)


def ring(chance: random.Random) -> bytes:
    """Pages that are their own parents, contents that name themselves."""
    target = chance.choice([b"2 0 R", b"3 0 R", b"1 0 R", b"99 0 R"])
    body = one_page(TEXT_PAGE)
    old = chance.choice([b"/Kids [3 0 R]", b"/Contents 4 0 R", b"/Pages 2 0 R", b"/F1 5 0 R"])
    return body.replace(old, old.split(b" ", 1)[0] + b" [" + target + b"]")


def deep(chance: random.Random) -> bytes:
    count = chance.randrange(100, 50_000)
    return one_page(chance.choice([b"[" * count, b"<<" * count, b"q " * count, b"BT " * count]))


def image_pdf(chance: random.Random) -> bytes:
    """An image that says it is far larger than its data."""
    width, height = chance.choice([(1, 1), (30_000, 30_000), (2**31, 2), (0, 5), (65_535, 65_535)])
    header = (
        f"/Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8 /ColorSpace /DeviceRGB"
    )
    data = zlib.compress(bytes(1000))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 400] /Contents 4 0 R /Resources << /XObject << /I 5 "
            b"0 R >> >> >>"
        ),
        b"<< /Length 22 >>\nstream\nq 300 0 0 400 0 0 cm /I Do Q\nendstream",
        b"<< %s /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (header.encode(), len(data), data),
    ]
    return pdf_of(objects)


def encrypted(chance: random.Random) -> bytes:
    return base64.b64decode(samples.locked_pdf())


def mutated(make: Callable[[], bytes]) -> Callable[[random.Random], bytes]:
    """Bytes changed, cut out, doubled and cut off at random."""

    def mutate(chance: random.Random) -> bytes:
        data = bytearray(make())
        for _ in range(chance.choice([1, 1, 3, 10, 50])):
            at, kind = chance.randrange(max(1, len(data))), chance.randrange(5)
            if kind == 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            elif kind == 1:
                del data[at : at + chance.randrange(1, 40)]
            elif kind == 2:
                data[at:at] = data[at : at + chance.randrange(1, 200)]
            elif kind == 3:
                data[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"-1  "])
            elif chance.random() < 0.3:
                del data[at:]
        return bytes(data)

    return mutate


def from_base64(text: str) -> Callable[[], bytes]:
    data = base64.b64decode(text)
    return lambda: data


def noise(chance: random.Random) -> bytes:
    magic = chance.choice(
        [
            b"",
            b"%PDF-1.7\n",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff\xe0",
            b"II*\0",
            b"MM\0+",
            b"BM",
            b"GIF89a",
            b"PK\3\4",
            b"RIFF\0\0\0\0WEBP",
            b"\0\0\0\x0cjP  \r\n\x87\n",
            b"\0\0\0\x20ftypavif",
            b"P6\n",
        ]
    )
    return magic + chance.randbytes(chance.choice([0, 1, 10, 1000, 50_000]))


def bomb(chance: random.Random) -> bytes:
    sizes = [(20_000, 3000), (60_000, 1000), (2**20, 100), (2**20, 1), (40_000, 2), (2, 40_000)]
    return base64.b64decode(samples.png_of_zeros(*chance.choice(sizes)))


def strip(chance: random.Random) -> bytes:
    """An image of a legal format and an absurd shape."""
    size = chance.choice([(1, 1), (1, 9000), (9000, 1), (2, 4000), (3000, 3000)])
    return base64.b64decode(samples.image(chance.choice(["PNG", "BMP", "TIFF"]), size=size, mode="L", color=200))


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    absurd_box,
    stream_bomb,
    many_objects,
    many_pages,
    ring,
    deep,
    image_pdf,
    encrypted,
    noise,
    bomb,
    strip,
    *(
        mutated(from_base64(file))
        for file in (
            samples.pdf((300, 400), (400, 300)),
            samples.encode(one_page(TEXT_PAGE)),
            samples.image("PNG", size=(200, 300), color=(9, 99, 200)),
            samples.image("JPEG", size=(200, 300), color=(9, 99, 200)),
            samples.tiff((60, 80), (80, 60)),
            samples.image("BMP", size=(50, 60)),
            samples.image("WEBP", size=(90, 60)),
            samples.image("GIF", size=(90, 60)),
            samples.image("JPEG2000", size=(90, 60), color=(9, 99, 200)),
            samples.image("AVIF", size=(90, 60), color=(9, 99, 200)),
            samples.image("PPM", size=(20, 30)),
        )
    ),
)


def file(number: int) -> tuple[str, bytes]:
    """The kind's name and the bytes of file ``number``."""
    kind = KINDS[number % len(KINDS)]
    return kind.__name__, kind(random.Random(f"damaged-{number}"))
