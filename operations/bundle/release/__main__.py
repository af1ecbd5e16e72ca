# SPDX-License-Identifier: Apache-2.0
"""scripts/release.sh: `make` writes a release's files to a folder, `version` writes another version into the tree."""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

from bundle import origin, signature
from bundle.compose.images import hardware
from bundle.files import as_json
from bundle.offline.engine import images, layers
from bundle.offline.save import made_for, save
from bundle.paths import ROOT, VALUES, shown
from bundle.progress import say, step
from bundle.release import sources, version
from bundle_version import VERSION
from served_weights.manifest import digest
from tool_errors import EnvironmentSetupError, UsageError, run

SUMS = "SHA256SUMS"


def check(out: Path) -> origin.Origin:
    """Return what the release is made from. Raises UsageError where the tree is not one that can be released."""
    version.check()
    sources.notes()
    found = origin.origin()
    if found.revision == origin.UNKNOWN or not (ROOT / ".git").exists():
        raise UsageError("this tree is no git checkout; a release is made from a commit")
    if found.dirty:
        changed = (origin.git("status", "--porcelain") or "?").splitlines()
        raise UsageError(
            f"{len(changed)} files differ from the commit, {changed[0].strip()!r} first; commit or remove them"
        )
    if not re.match(r"\w+://", found.source):
        raise UsageError(f"BUNDLE_SOURCE is {found.source!r}; expected the address that others fetch this commit from")
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; a release gets a folder of its own")
    return found


def archive_name() -> str:
    """Of the offline archive: its images serve this product, or CPUs, with this stack on machines like this one."""
    own = made_for(weights=False)
    return f"{origin.NAME}-{own.get('ATLAS', own['HARDWARE'])}-vllm{own['STACK']}-{platform.machine()}.tar"


def make_images(out: Path, corpus: bool) -> dict[str, str]:
    """Build the images of HARDWARE and STACK, and write the offline archive; returns the images' names and the
    digests of their layers."""
    with step("building the images"):
        words = ["vlm", "parser", *(["corpus"] if corpus else [])]
        if subprocess.run([ROOT / "scripts/build_images.sh", *words], check=False).returncode:
            raise EnvironmentSetupError("docker compose build failed; its last lines say why")
    names = images(corpus)
    save(out / archive_name(), names, weights=False)
    return {name: layers(name) for name in names}


def make(out: Path, with_images: bool, corpus: bool, key: Path | None) -> None:
    """Write all files of a release; the signature of the sums of the others comes last. Raises ToolError."""
    made_from, began = check(out), origin.now()
    out.mkdir(parents=True, exist_ok=True)
    with step("the sources"):
        sources.as_files(out, made_from)
    built = make_images(out, corpus) if with_images else {}
    subjects = built | {path.name: digest(path) for path in out.iterdir()}
    parameters = {"images": sorted(built), "hardware": hardware(VALUES)} if built else {"images": []}
    said = sources.statement(made_from, subjects, parameters, began, origin.now())
    (out / f"{origin.NAME}.intoto.json").write_bytes(as_json(said, indent=1))
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / SUMS).write_text("".join(lines), encoding="utf-8")
    if key:
        signature.sign(out / SUMS, key)
        for archive in out.glob("*.tar"):  # what scripts/offline_bundle.sh load --signers asks for
            signature.sign(archive, key)
    say(
        f"{shown(out)}: {VERSION} from {made_from.revision}, {len(lines)} files{'' if key else ', NOT SIGNED (--sign)'}"
    )


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/release.sh", description="Make a release from a clean tree.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make", help="notes, sources, images, bills of materials, provenance, sums, signature")
    making.add_argument("out", type=Path, help="an empty folder")
    making.add_argument("--sign", type=Path, metavar="KEY", help="the site's SSH key, or the public half of an agent's")
    making.add_argument("--no-images", action="store_true", help="leave out what needs a container engine")
    making.add_argument("--corpus", action="store_true", help="with the image of scripts/parse_corpus.py")
    writing = verbs.add_parser("version", help="print the version, or write another one into every file that has it")
    writing.add_argument("version", nargs="?")
    options = parser.parse_args(words)
    if options.verb == "make":
        make(options.out.absolute(), not options.no_images, options.corpus, options.sign)
    elif options.version is None:
        print(json.dumps({"version": VERSION, "revision": origin.origin().revision}))
    else:
        for path in version.write(options.version):
            say(f"{shown(path)}: {options.version}")
    return 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
