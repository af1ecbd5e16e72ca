# SPDX-License-Identifier: Apache-2.0
"""Documents that cost more than they weigh, and documents that are broken. Each is made anew from a number."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Mapping

from chaos.documents import honest
from pdf_file import assemble

Maker = Callable[[random.Random], bytes]


def page(content: bytes, resources: bytes = b"", *more: bytes, stream: bytes = b"") -> bytes:
    """A PDF of one page; `more` are objects from number 5 on."""
    return assemble(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources << %s >> >>" % resources,
            b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), stream, content),
            *more,
        ]
    )


def form_object(content: bytes, inner: int | None) -> bytes:
    uses = b"/Resources << /XObject << /F %d 0 R >> >>" % inner if inner else b""
    head = b"<< /Type /XObject /Subtype /Form /BBox [0 0 595 842] %s /Length %d >>" % (uses, len(content))
    return head + b"\nstream\n%s\nendstream" % content


def nested_forms(chance: random.Random) -> bytes:
    """Forms within forms, each drawn several times: work grows as a power of the depth."""
    depth, width = chance.choice([(6, 6), (8, 8), (9, 10)])
    levels = [form_object(b"/F Do\n" * width, 6 + level) for level in range(depth)]
    return page(b"/F Do\n" * width, b"/XObject << /F 5 0 R >>", *levels, form_object(b"0 0 9 9 re f\n" * 10, None))


def form_in_itself(chance: random.Random) -> bytes:
    return page(b"/F Do", b"/XObject << /F 5 0 R >>", form_object(b"/F Do\n" * chance.randrange(1, 4), 5))


def function_shading(chance: random.Random) -> bytes:
    """A shading whose colour is a long program for every pixel."""
    program = b"{ " + b"sin cos " * chance.randrange(1000, 20000) + b"pop dup dup }"
    function = b"<< /FunctionType 4 /Domain [0 1 0 1] /Range [0 1 0 1 0 1] /Length %d >>\nstream\n%s\nendstream"
    shading = b"<< /ShadingType 1 /ColorSpace /DeviceRGB /Domain [0 1 0 1] /Matrix [595 0 0 842 0 0] /Function 6 0 R >>"
    return page(b"/S sh", b"/Shading << /S 5 0 R >>", shading, function % (len(program), program))


def many_objects(chance: random.Random) -> bytes:
    return page(b"0 0 1 1 re f\n" * chance.randrange(1_000, 190_000))


def stream_bomb(chance: random.Random) -> bytes:
    data = chance.choice([b" ", b"q ", b"0 0 m ", b"("]) * chance.randrange(100_000, 3_000_000)
    return page(zlib.compress(zlib.compress(data)), stream=b"/Filter [/FlateDecode /FlateDecode]")


def pixel_bomb(chance: random.Random) -> bytes:
    """A PNG of one colour that is small as a file only."""
    width, height = chance.choice([(20_000, 3_000), (60_000, 1_000), (2**20, 1), (9_000, 9_000), (2, 40_000)])
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compressobj(9)
    data = b"".join([*(rows.compress(bytes(1 + (width + 7) // 8)) for _ in range(height)), rows.flush()])
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def deep(chance: random.Random) -> bytes:
    return page(chance.choice([b"[", b"<<", b"q ", b"BT "]) * chance.randrange(100, 200_000))


def wrong_counts(chance: random.Random) -> bytes:
    count = chance.choice([-1, 0, 7, 100_000, 2**31, 2**63])
    return page(b"BT ET").replace(b"/Count 1", b"/Count %d" % count)


def markup_in_print(chance: random.Random) -> bytes:
    """Markup printed on the page, which a good VLM reads as it stands."""
    lines = chance.choice(
        [
            ["<table><tr>" + "<td rowspan=200 colspan=200>x</td>" * 2] * 20,
            [r"\[ \( \[ \( \[ \( a + b \[ \(" for _ in range(40)],
            ["[a](javascript:alert(1)) <img src=x onerror=alert(1)>" for _ in range(20)],
        ]
    )
    shown = b"\n".join(
        b"1 0 0 1 40 %d Tm (%s) Tj" % (800 - 18 * place, escaped(line)) for place, line in enumerate(lines)
    )
    font = b"/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
    return page(b"BT /F1 11 Tf\n" + shown + b"\nET", font)


def escaped(line: str) -> bytes:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)").encode()


def noise(chance: random.Random) -> bytes:
    magic = chance.choice([b"", b"%PDF-1.7\n", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"II*\0", b"BM", b"PK\3\4"])
    return magic + chance.randbytes(chance.choice([0, 10, 1000, 200_000]))


def damaged(chance: random.Random) -> bytes:
    """An honest document with bytes changed, doubled, and cut off."""
    data = bytearray(chance.choice(honest()).path.read_bytes())
    for _ in range(chance.choice([1, 5, 50])):
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        else:
            data[at:at] = data[at : at + chance.randrange(1, 200)]
    return bytes(data[: chance.choice([len(data), len(data) // 2, 300])])


KINDS: Mapping[str, Maker] = {
    maker.__name__: maker
    for maker in (
        nested_forms,
        form_in_itself,
        function_shading,
        many_objects,
        stream_bomb,
        pixel_bomb,
        deep,
        wrong_counts,
        markup_in_print,
        noise,
        damaged,
    )
}


def document(seed: int, number: int) -> tuple[str, bytes]:
    """Kind and bytes of hostile document `number`."""
    chance = random.Random(f"hostile-{seed}-{number}")
    kind = sorted(KINDS)[number % len(KINDS)]
    return kind, KINDS[kind](chance)
