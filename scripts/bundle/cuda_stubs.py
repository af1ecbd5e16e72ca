# SPDX-License-Identifier: Apache-2.0
"""torch without NVIDIA's libraries, for images that serve on a CPU: stand-ins for what its loader wants to find.

The plain x86-64 wheel of torch is a CUDA build: it cannot be loaded unless libraries of 4 GB are there, of which nothing runs
on a machine without a GPU. Their wheels are left out here (`without_cuda`), and `write` puts a library of a few kilobytes in
the place of each, with the functions that torch's own libraries are linked against. Called is none of them: the CUDA runtime
and the profiling interface, which torch does call to find out that there is no GPU, are NVIDIA's own.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import EnvironmentSetupError

# NVIDIA's packages whose libraries are replaced (small ones are kept), and how the functions of each library begin: that
# tells only those apart that torch's libraries ask for without a version.
PACKAGE = re.compile(r"^nvidia-(cublas|cuda-nvrtc|cudnn|cufft|curand|cusolver|cusparse|cusparselt|nccl|nvjitlink|nvshmem)-cu\d+==")
PREFIXES = {"libcublasLt": "cublasLt", "libcublas": "cublas(?!Lt)", "libcudnn": "cudnn", "libcufft": "cufft",
            "libcurand": "curand", "libcusolver": "cusolver", "libcusparseLt": "cusparseLt",
            "libcusparse": "cusparse(?!Lt)", "libnccl": "p?nccl", "libnvshmem_host": "nvshmem"}
# mov eax, 1; ret: "not initialised" in all of these libraries.
CODE = bytes.fromhex("b801000000c3")
# Of the ELF specification (System V gABI, chapters 4 and 5) and the symbol versions of GNU (LSB Core, chapter 10.7).
SYMTAB, STRTAB, HASH, STRSZ, SYMENT, SONAME, NEEDED = 6, 5, 4, 10, 11, 14, 1
VERSYM, VERDEF, VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
LOAD, DYNAMIC, GNU_STACK, PAGE = 1, 2, 0x6474E551, 0x1000
SHT_DYNAMIC, SHT_DYNSYM, SHT_VERNEED, SHT_VERSYM = 6, 11, 0x6FFFFFFE, 0x6FFFFFFF


class Expected(NamedTuple):
    """What a shared object expects of others."""

    needed: list[str]  # libraries
    symbols: dict[str, tuple[str, str] | None]  # symbol -> (library, version) where it asks for a version


def without_cuda(lock: str) -> str:
    """The text of a lock without NVIDIA's packages that `write` stands in for, each a line and the hashes below it."""
    return "".join(entry for entry in re.split(r"(?m)^(?=\S)", lock) if not PACKAGE.match(entry))


def expected(library: Path) -> Expected:
    """Libraries that a shared object names as needed, and the symbols that it does not define itself."""
    with library.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
        sections_at, size, count = (*struct.unpack_from("<Q", image, 0x28), *struct.unpack_from("<HH", image, 0x3A))
        sections = [struct.unpack_from("<IIQQQQIIQQ", image, sections_at + index * size) for index in range(count)]

        def text(table: int, offset: int) -> str:
            begin = sections[table][4] + offset
            return image[begin:image.find(b"\0", begin)].decode()

        needed: list[str] = []
        undefined: dict[int, str] = {}  # index in the symbol table -> name
        asked: tuple[int, ...] = ()  # index in the symbol table -> number of a version
        versions: dict[int, tuple[str, str]] = {}  # number of a version -> library, name of the version
        for _, kind, _, _, offset, length, strings, entries, _, _ in sections:
            if kind == SHT_DYNAMIC:
                pairs = struct.iter_unpack("<qQ", image[offset:offset + length])
                needed = [text(strings, value) for tag, value in pairs if tag == NEEDED]
            elif kind == SHT_DYNSYM:
                rows = struct.iter_unpack("<IBBHQQ", image[offset:offset + length])
                undefined = {index: text(strings, name) for index, (name, _, _, section, _, _) in enumerate(rows)
                             if name and not section}
            elif kind == SHT_VERSYM:
                asked = struct.unpack_from(f"<{length // 2}H", image, offset)
            elif kind == SHT_VERNEED:
                for _ in range(entries):
                    _, names, file, at, following = struct.unpack_from("<HHIII", image, offset)
                    at += offset
                    for _ in range(names):
                        _, _, number, name, step = struct.unpack_from("<IHHII", image, at)
                        versions[number] = text(strings, file), text(strings, name)
                        at += step
                    offset += following
        return Expected(needed, {name: versions.get(asked[index]) if asked else None for index, name in undefined.items()})


def elf_hash(name: str) -> int:
    """The hash function of ELF's symbol tables."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value


def shared_object(soname: str, version: str, functions: list[str]) -> bytes:
    """An x86-64 shared object that defines `functions`, all of one version, as NVIDIA's libraries do."""
    strings = bytearray(b"\0")

    def string(value: str) -> int:
        strings.extend(value.encode() + b"\0")
        return len(strings) - 1 - len(value.encode())

    own, asked = string(soname), string(version)
    names = [string(name) for name in functions]
    count = len(functions) + 1
    # Headers, code, and the tables one after the other, each at a multiple of eight.
    code_at = 64 + 4 * 56
    at, tables = code_at + 8, {}
    versions = struct.pack(f"<{count}H", 0, *(2 for _ in functions))
    # Two definitions: the file itself (base) and the version that programs ask for.
    definitions = b"".join(struct.pack("<HHHHIIIII", 1, flags, index, 1, elf_hash(name), 20, following, at, 0)
                           for flags, index, name, at, following in ((1, 1, soname, own, 28), (0, 2, version, asked, 0)))
    # One bucket: a chain through all symbols is short enough for what is looked up once.
    chain = struct.pack(f"<II I {count}I", 1, count, 1 if functions else 0, 0, *(*range(2, count), 0)[:count - 1])
    for tag, content in ((SYMTAB, b"\0" * 24 * count), (VERSYM, versions), (VERDEF, definitions), (HASH, chain),
                         (STRTAB, bytes(strings))):
        tables[tag] = (at, content)
        at += -(-len(content) // 8) * 8
    symbols = b"\0" * 24 + b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, code_at, len(CODE)) for name in names)
    tables[SYMTAB] = (tables[SYMTAB][0], symbols)
    dynamic = b"".join(struct.pack("<qQ", tag, value) for tag, value in (
        (SONAME, own), *((tag, place) for tag, (place, _) in tables.items()), (STRSZ, len(strings)), (SYMENT, 24),
        (VERDEFNUM, 2), (0, 0)))
    # The loader writes into the dynamic section, so that lies in a page of its own: no page is both written and run.
    dynamic_at = -(-at // PAGE) * PAGE
    image = bytearray(dynamic_at) + dynamic
    image[0:64] = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 0, 0, 0)
    for index, (kind, flags, offset, size, align) in enumerate((
            (LOAD, 5, 0, at, PAGE), (LOAD, 6, dynamic_at, len(dynamic), PAGE), (DYNAMIC, 6, dynamic_at, len(dynamic), 8),
            (GNU_STACK, 6, 0, 0, 16))):
        struct.pack_into("<IIQQQQQQ", image, 64 + 56 * index, kind, flags, offset, offset, offset, size, size, align)
    image[code_at:code_at + len(CODE)] = CODE
    for place, content in tables.values():
        image[place:place + len(content)] = content
    return bytes(image)


def wanted(torch: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Of each library that was left out: its name, its version, which is mostly its name again, and the functions of it that
    torch's libraries refer to. Raises EnvironmentSetupError where they ask one library for several versions."""
    sonames: set[str] = set()
    symbols: set[tuple[str, tuple[str, str] | None]] = set()
    for library in sorted((torch / "lib").glob("*.so")):
        needed, undefined = expected(library)
        sonames.update(needed)
        symbols.update(undefined.items())
    for soname in sorted(sonames):
        if prefix := PREFIXES.get(soname.partition(".so")[0]):
            versions = {asked[1] for _, asked in symbols if asked and asked[0] == soname} or {soname}
            if len(versions) > 1:
                raise EnvironmentSetupError(f"{torch}: asks {soname} for the versions {', '.join(sorted(versions))}; expected "
                                            "one; take a CPU build of torch: TORCH_CPU_INDEX_URL")
            functions = {name for name, asked in symbols
                         if (asked[0] == soname if asked else re.match(rf"{prefix}(?![a-z])", name))}
            yield soname, versions.pop(), sorted(functions)


def write(site_packages: Path) -> list[str]:
    """Put the stand-ins where torch's libraries look for NVIDIA's; returns the names of those that it wrote.

    Nothing is written where torch is a CPU build, or beside a library that is there.
    """
    target, written = site_packages / "nvidia" / "cublas" / "lib", []
    for soname, version, functions in wanted(site_packages / "torch"):
        if not any((site_packages / "nvidia").glob(f"*/lib/{soname}")):
            target.mkdir(parents=True, exist_ok=True)
            (target / soname).write_bytes(shared_object(soname, version, functions))
            written.append(soname)
    return written
