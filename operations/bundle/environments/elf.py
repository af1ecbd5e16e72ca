# SPDX-License-Identifier: Apache-2.0
"""Shared objects in the form that Linux's loader reads: what one asks of others, and the writing of a small one.

The format is that of the System V ABI (ELF-64, little-endian) with GNU's symbol versions, as the Linux Standard Base
describes them (section "Symbol Versioning"). Both processors that the bundle runs on have it.
"""

from __future__ import annotations

import platform
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tool_errors import EnvironmentSetupError

IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct(
    "<IIQQQQQQ"
)  # type, flags, offset, address, physical address, bytes, bytes in memory, alignment
SECTION = struct.Struct(
    "<IIQQQQIIQQ"
)  # name, type, flags, address, offset, bytes, link, info, alignment, entry's bytes
SYMBOL = struct.Struct("<IBBHQQ")  # name, binding and type, visibility, section, value, bytes
PAIR = struct.Struct("<QQ")  # an entry of the dynamic section: tag, value
NEED, NEED_VERSION = struct.Struct("<HHIII"), struct.Struct("<IHHII")
DEFINITION, DEFINED_NAME = struct.Struct("<HHHHIII"), struct.Struct("<II")
# Types of sections.
PROGBITS, STRINGS, HASH, DYNAMIC, SYMBOLS = 1, 3, 5, 6, 11
VERSION_DEFINITIONS, VERSION_NEEDS, VERSION_NUMBERS = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
SECTION_NAMES = {
    PROGBITS: ".text",
    STRINGS: ".dynstr",
    SYMBOLS: ".dynsym",
    HASH: ".hash",
    VERSION_NUMBERS: ".gnu.version",
    VERSION_DEFINITIONS: ".gnu.version_d",
    DYNAMIC: ".dynamic",
}
# Tags of the dynamic section.
NEEDED, SONAME, STRING_BYTES, SYMBOL_BYTES, VERSION_COUNT = 1, 14, 10, 11, 0x6FFFFFFD
TAGS = {HASH: 4, STRINGS: 5, SYMBOLS: 6, VERSION_NUMBERS: 0x6FFFFFF0, VERSION_DEFINITIONS: 0x6FFFFFFC}
PAGE = 0x10000  # the largest that a kernel for aarch64 may have


class Machine(NamedTuple):
    """A processor: its number in ELF, and a function that returns 1."""

    number: int
    return_1: bytes


MACHINES = {
    "x86_64": Machine(62, bytes.fromhex("b801000000c3")),  # mov eax, 1; ret
    "aarch64": Machine(183, bytes.fromhex("20008052c0035fd6")),  # mov w0, #1; ret
}


class Asked(NamedTuple):
    """What a shared object asks of others."""

    needed: list[str]  # libraries
    versions: dict[str, set[str]]  # library -> the symbol versions that are asked of it
    symbols: dict[str, str | None]  # undefined symbol -> the version that is asked for, None without one
    soname: str | None  # its own name


class Part(NamedTuple):
    """One section of a file that is read."""

    kind: int
    data: bytes
    strings: bytes  # the section that `link` names, mostly the strings of this one
    entries: int


def asked(path: Path) -> Asked:
    """What a shared object needs, by its dynamic section, its version references and its symbol table.

    Raises EnvironmentSetupError for a file that is none.
    """
    try:
        with path.open("rb") as file:
            parts = {part.kind: part for part in read(file)}
    except (struct.error, ValueError, IndexError) as error:
        raise EnvironmentSetupError(f"{path} is no shared object of 64 bits, little-endian ({error})") from error
    needed: list[str] = []
    soname = None
    if dynamic := parts.get(DYNAMIC):
        for tag, value in PAIR.iter_unpack(dynamic.data):
            if tag == NEEDED:
                needed.append(text(dynamic.strings, value))
            elif tag == SONAME:
                soname = text(dynamic.strings, value)
    names: dict[int, str] = {}  # number of a version in this file -> its name
    versions: dict[str, set[str]] = {}
    for library, number, version in version_needs(parts.get(VERSION_NEEDS)):
        versions.setdefault(library, set()).add(version)
        names[number] = version
    symbols: dict[str, str | None] = {}
    if table := parts.get(SYMBOLS):
        numbers = parts[VERSION_NUMBERS].data if VERSION_NUMBERS in parts else bytes(len(table.data))
        for (name, _, _, section, _, _), (number,) in zip(
            SYMBOL.iter_unpack(table.data), struct.iter_unpack("<H", numbers[: len(table.data) // 12])
        ):
            if name and not section:
                symbols[text(table.strings, name)] = names.get(number & 0x7FFF)
    return Asked(needed, versions, symbols, soname)


def read(file: BinaryIO) -> Iterator[Part]:
    """The sections of a file that say what it asks for, without the others, which may have gigabytes."""
    header = file.read(FILE_HEADER.size)
    if not header.startswith(IDENTITY):
        raise ValueError("its first bytes are others")
    *_, at, _, _, _, _, size, count, _ = FILE_HEADER.unpack(header)
    file.seek(at)
    sections = list(SECTION.iter_unpack(file.read(size * count)))

    def data(number: int) -> bytes:
        file.seek(sections[number][4])
        return file.read(sections[number][5])

    for number, (_, kind, _, _, _, _, link, info, _, _) in enumerate(sections):
        if kind in (DYNAMIC, SYMBOLS, VERSION_NEEDS, VERSION_NUMBERS):
            yield Part(kind, data(number), data(link), info)


def text(strings: bytes, at: int) -> str:
    """The string that begins at an offset of a table of strings."""
    return strings[at : strings.index(0, at)].decode()


def version_needs(part: Part | None) -> Iterator[tuple[str, int, str]]:
    """Each version that is asked for, as (library, its number in this file, its name)."""
    at = 0
    for _ in range(part.entries if part else 0):
        assert part is not None
        _, count, library, inner, following = NEED.unpack_from(part.data, at)
        inner += at
        for _ in range(count):
            _, _, number, name, next_inner = NEED_VERSION.unpack_from(part.data, inner)
            yield text(part.strings, library), number, text(part.strings, name)
            inner += next_inner
        at += following


def name_hash(name: str) -> int:
    """The hash of the System V ABI, which symbol tables and versions use."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value


def write(target: Path, version: str, functions: Sequence[str], processor: str = "") -> None:
    """Write a shared object, named like its file, that defines `functions`, all of one symbol version, for a key of
    MACHINES: this machine's by default.

    Each function returns 1. Raises EnvironmentSetupError for a name that is none of C, and another processor.
    """
    processor = processor or platform.machine()
    if processor not in MACHINES:
        raise EnvironmentSetupError(f"{target.name}: no code for {processor}; expected {' or '.join(MACHINES)}")
    machine = MACHINES[processor]
    if bad := [name for name in functions if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII)]:
        raise EnvironmentSetupError(f"{target.name}: {bad[0]!r} cannot be a function of C")
    strings = bytearray(b"\0")

    def string(word: str) -> int:
        strings.extend(word.encode() + b"\0")
        return len(strings) - len(word.encode()) - 1

    soname, version_name = string(target.name), string(version)
    # The code is the first section. A function is global and of type "function": 0x12.
    symbols = b"".join(SYMBOL.pack(string(name), 0x12, 0, 1, 0, len(machine.return_1)) for name in functions)
    # A version definition: form 1, flags (1: the file itself), number, one name, its hash, offsets.
    own = DEFINITION.pack(1, 1, 1, 1, name_hash(target.name), DEFINITION.size, DEFINITION.size + DEFINED_NAME.size)
    given = DEFINITION.pack(1, 0, 2, 1, name_hash(version), DEFINITION.size, 0)
    definitions = own + DEFINED_NAME.pack(soname, 0) + given + DEFINED_NAME.pack(version_name, 0)
    numbers = struct.pack(f"<{1 + len(functions)}H", 0, *(2 for _ in functions))
    names = {kind: string(name) for kind, name in SECTION_NAMES.items()}
    sections = [
        # type, data, link (number of the strings, or of the symbols), info, bytes of an entry
        (PROGBITS, machine.return_1, 0, 0, 0),
        (STRINGS, bytes(strings), 0, 0, 0),
        (SYMBOLS, bytes(SYMBOL.size) + symbols, 2, 1, SYMBOL.size),
        (HASH, hash_table(functions), 3, 0, 4),
        (VERSION_NUMBERS, numbers, 3, 0, 2),
        (VERSION_DEFINITIONS, definitions, 2, 2, 0),
    ]
    # What lies there may be a hard link into the installer's cache.
    target.unlink(missing_ok=True)
    target.write_bytes(image(sections, names, soname, machine.number))


def hash_table(names: Sequence[str]) -> bytes:
    """The table by which the loader finds a symbol: chains of numbers, one chain for each remainder of the hash."""
    buckets, chains = [0] * max(1, len(names)), [0]
    for number, name in enumerate(names, 1):
        bucket = name_hash(name) % len(buckets)
        chains.append(buckets[bucket])
        buckets[bucket] = number
    return struct.pack(f"<{2 + len(buckets) + len(chains)}I", len(buckets), len(chains), *buckets, *chains)


def image(sections: list[tuple[int, bytes, int, int, int]], names: dict[int, int], soname: int, machine: int) -> bytes:
    """A file with these sections, which are read and executed, and a dynamic section, which the loader writes to.

    `names` and `soname` are offsets in the strings, which are the second section. Addresses are offsets in the file.
    The symbols' values are set to the code, which is the first section.
    """
    body = bytearray(FILE_HEADER.size + 4 * SEGMENT.size)
    table = [bytes(SECTION.size)]
    pairs = [(SONAME, soname), (SYMBOL_BYTES, SYMBOL.size)]
    code = len(body)
    for kind, data, link, info, entry in sections:
        body += bytes(-len(body) % 8)
        if kind == SYMBOLS:
            data = b"".join(
                SYMBOL.pack(*symbol[:4], code if symbol[0] else 0, symbol[5]) for symbol in SYMBOL.iter_unpack(data)
            )
        flags = 6 if kind == PROGBITS else 2  # part of the process (2), executable (4)
        at = len(body)
        table.append(SECTION.pack(names[kind], kind, flags, at, at, len(data), link, info, 8, entry))
        if kind in TAGS:
            pairs.append((TAGS[kind], len(body)))
        if kind == STRINGS:
            pairs.append((STRING_BYTES, len(data)))
        if kind == VERSION_DEFINITIONS:
            pairs.append((VERSION_COUNT, info))
        body += data
    read_only = len(body)
    body += bytes(-len(body) % PAGE)
    at = len(body)
    dynamic = b"".join(PAIR.pack(*pair) for pair in (*pairs, (0, 0)))
    body += dynamic
    table.append(SECTION.pack(names[DYNAMIC], DYNAMIC, 3, at, at, len(dynamic), 2, 0, 8, PAIR.size))
    segments = [
        (1, 5, 0, 0, 0, read_only, read_only, PAGE),  # loaded, read and executed
        (1, 6, at, at, at, len(dynamic), len(dynamic), PAGE),  # loaded, read and written
        (2, 6, at, at, at, len(dynamic), len(dynamic), 8),  # the dynamic section
        (0x6474E551, 6, 0, 0, 0, 0, 0, 16),  # the stack is not executed
    ]
    # A shared object (3), no entry, segments behind this header, sections at the end, of which
    # the second holds the names.
    header = FILE_HEADER.pack(
        IDENTITY, 3, machine, 1, 0, FILE_HEADER.size, len(body), 0,
        FILE_HEADER.size, SEGMENT.size, len(segments), SECTION.size, len(table), 2,
    )  # fmt: skip
    body[:code] = header + b"".join(SEGMENT.pack(*segment) for segment in segments)
    return bytes(body) + b"".join(table)
