# SPDX-License-Identifier: Apache-2.0
"""Simulated compilers: `bisheng` for the device, and `c++`, `cc` for host code that includes CANN's headers.

What is simulated: code. An object holds nothing but the name of its source, because this machine has no headers of CANN
and no device compiler; one also makes a module of Python, so that the extension can be loaded (extension.c). What is
real: the preprocessor, which g++ runs with the options given, so that every include is looked for; and the linker,
which needs every library. A compilation ends with status 1 where an include is found
neither here nor in CANN's list (headers.txt). Each is recorded as a line of JSON.
Sources of CMake's own checks go to the real compiler.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RECORD = pathlib.Path("/var/log/simulated-compilers.jsonl")
HCC = "aarch64-target-linux-gnu-"  # CANN's compiler for the processor on the device
REAL = {"c++": "/usr/bin/g++", "cc": "/usr/bin/gcc", "bisheng": "/usr/bin/g++"}
REAL |= {f"{HCC}g++": "/usr/bin/g++", f"{HCC}gcc": "/usr/bin/gcc"}
SOURCE = re.compile(r"\.(c|cc|cpp|cxx)$")
WITH_VALUE = ("-o", "-MF", "-MT", "-MQ", "-I", "-isystem", "-D", "-x", "-mllvm")
# What only the device compiler knows.
DEVICE_ONLY = re.compile(r"^(--cce|-cce|--op_|-mllvm$)")
LINES = (HERE / "headers.txt").read_text().splitlines()
OWNED = re.compile("|".join(line for line in LINES if line and not line.startswith("#")))
# What the device compiler defines of a chip's cores, by a part of the chip's name. Upstream's kernels ask for it, and
# include other files on a 310P.
CORES = {"310p": "200", "910": "220"}
# The source that makes vllm_ascend_C a module of Python.
MODULE = "/csrc/camem_allocator.cpp"
# Assembler's text: there are hundreds of sources, and no C in most of their objects.
EMBEDDED = '.pushsection simulated, "a"\n.asciz "SIMULATED-SOURCE:{}"\n.popsection\n'


def split(words):
    """(options, sources), each option with its value."""
    options: list[tuple[str, ...]] = []
    sources, rest = [], iter(words)
    for word in rest:
        if word in WITH_VALUE:
            options.append((word, next(rest)))
        elif SOURCE.search(word) and not word.startswith("-"):
            sources.append(word)
        else:
            options.append((word,))
    return options, sources


def cores(options):
    """The macro of the chip that --cce-soc-version names."""
    [chip] = [word.partition("=")[2].lower() for [word, *_] in options if word.startswith("--cce-soc-version=")]
    [generation] = [number for part, number in CORES.items() if part in chip]
    return [f"-D__CCE_AICORE__={generation}"]


def missing(real, options, source, more=()):
    """Includes that the real preprocessor does not find with these options."""
    kept = [
        "c++" if word == "cce" else word  # the device's language
        for option in options
        for word in option
        if option[0] not in ("-o", "-c", "-MD", "-MF", "-MT", "-MQ") and not DEVICE_ONLY.match(option[0])
    ]
    done = subprocess.run([real, "-M", "-MG", *more, *kept, source], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"simulated compiler: {source}: {done.stderr}")
    words = done.stdout.partition(":")[2].replace("\\\n", " ").split()
    return sorted({word for word in words if not pathlib.Path(word).is_file()})


def schemas(binding, options):
    """What the binding registers with PyTorch where it is compiled with these options, each operator once: for another
    chip upstream defines another macro. The includes, which are not here, are left out first."""
    text = re.sub(r"^\s*#\s*include\b.*", "", binding, flags=re.MULTILINE)
    macros = [word for option in options if option[0].startswith("-D") for word in option]
    command = [REAL["c++"], "-E", "-P", "-x", "c++", *macros, "-"]
    binding = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    literal = r'"((?:[^"\\]|\\.)*)"'
    found = (
        "".join(re.findall(literal, words)) for words, _ in re.findall(rf"ops\.def\(\s*((?:{literal}\s*)+)", binding)
    )
    return list({schema.partition("(")[0]: schema.replace('\\"', '"') for schema in found}.values())


def main(tool, words):
    real = REAL[tool]
    options, sources = split(words)
    if (
        ("-c",) not in options
        or len(sources) != 1
        or (tool != "bisheng" and "/CMakeFiles/" in os.path.abspath(sources[0]))
    ):
        # Links, and what CMake compiles to learn about the compiler.
        return subprocess.call([real, *words])
    [source] = sources
    source = os.path.abspath(source)
    lost = missing(real, options, source, cores(options) if tool == "bisheng" else ())
    entry = {"tool": tool, "source": source, "options": [list(one) for one in options], "folder": os.getcwd()}
    with RECORD.open("a") as record:
        record.write(json.dumps(entry | {"missing": lost}) + "\n")
    if unknown := [name for name in lost if not OWNED.match(name)]:
        sys.exit(f"simulated compiler: {source}: includes {', '.join(unknown)}, found neither here nor in CANN")
    out = dict(one for one in options if len(one) == 2)
    language, stand_in = "assembler", EMBEDDED.format(source)
    if source.endswith(MODULE):
        binding = pathlib.Path(source).with_name("torch_binding.cpp").read_text()
        extension = (HERE / "extension.c").read_text()
        extension = extension.replace(" SCHEMAS ", f" {json.dumps(repr(schemas(binding, options)))} ")
        language, stand_in = "c", f"__asm__({json.dumps(stand_in)});\n{extension}"
    if "-MF" in out:
        pathlib.Path(out["-MF"]).write_text(f"{out.get('-MT', out['-o'])}: {source}\n")
    command = [REAL["cc"], "-fPIC", "-Wa,--noexecstack", "-c", "-x", language, "-o", out["-o"], "-"]
    return subprocess.run(command, input=stand_in, text=True).returncode


sys.exit(main(pathlib.Path(sys.argv[0]).name, sys.argv[1:]))
