# SPDX-License-Identifier: Apache-2.0
"""Faces that Chromium and LibreOffice set pages in, and the Debian packages that bring them.

Both put another face in the place of one that is missing, without a word. Pages that judge would then be other pages.
"""

from __future__ import annotations

import shutil
import subprocess

PACKAGES = {
    "DejaVu Sans": "fonts-dejavu-core",
    "DejaVu Serif": "fonts-dejavu-core",
    "DejaVu Sans Mono": "fonts-dejavu-core",
    "Liberation Sans": "fonts-liberation",
    "Liberation Serif": "fonts-liberation",
    "Liberation Mono": "fonts-liberation",
    "Noto Sans": "fonts-noto-core",
    "Noto Serif": "fonts-noto-core",
    "Roboto": "fonts-roboto",
    "Open Sans": "fonts-open-sans",
    "Lato": "fonts-lato",
    "Carlito": "fonts-crosextra-carlito",
    "Caladea": "fonts-crosextra-caladea",
    "CMU Serif": "fonts-cmu",
    "CMU Typewriter Text": "fonts-cmu",
    "TeX Gyre Termes": "fonts-texgyre",
    "TeX Gyre Pagella": "fonts-texgyre",
    "TeX Gyre Cursor": "fonts-texgyre",
    "Inconsolata": "fonts-inconsolata",
    "Hack": "fonts-hack",
}


def require_faces() -> None:
    """Raises FileNotFoundError, which names the packages, where a face is missing."""
    if not shutil.which("fc-list"):
        raise FileNotFoundError("fc-list is missing; install it with: apt-get install fontconfig")
    listed = subprocess.run(["fc-list", ":", "family"], check=True, capture_output=True, text=True, timeout=60).stdout
    there = {name.strip() for line in listed.splitlines() for name in line.split(",")}
    missing = sorted({package for face, package in PACKAGES.items() if face not in there})
    if missing:
        raise FileNotFoundError(f"faces are missing; install them with: apt-get install {' '.join(missing)}")
