# SPDX-License-Identifier: Apache-2.0
"""The bill of materials of an image: `python -m bundle.image_build.bill TITLE VERSION` writes bom.cdx.json.

CycloneDX 1.6 as JSON (ECMA-424). It names what the image holds when it is made: the system's packages, the packages of
every Python environment, and the libraries that the parser's web page carries. No network, no clock: the same packages
give the same file. Standard library only, because it runs in the images' last step, where nothing else is at hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bundle.paths import ENVS_DIR, ROOT
from tool_errors import EnvironmentSetupError, UsageError, run

NAME = "bom.cdx.json"
VENDOR = "parser/docparser/web/static/vendor/README.md"
# What the system's package manager is asked for: name, version, architecture, separated by tabs.
DPKG = ("dpkg-query", "--show", "--showformat", "${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n")
RPM = ("rpm", "--query", "--all", "--queryformat", "installed\t%{NAME}\t%{VERSION}-%{RELEASE}\t%{ARCH}\n")

Component = dict[str, Any]


def bill(title: str, version: str, components: Iterable[Component]) -> dict[str, Any]:
    """The document. Components that are listed twice become one; their properties are joined."""
    merged: dict[str, Component] = {}
    for component in components:
        whole = merged.setdefault(component["bom-ref"], {**component, "properties": []})
        whole["properties"] += [one for one in component.get("properties", ()) if one not in whole["properties"]]
    listed = [merged[ref] for ref in sorted(merged)]
    for component in listed:
        if not component["properties"]:
            del component["properties"]
    digest = hashlib.sha256(json.dumps([title, version, listed], sort_keys=True).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32])}",
        "version": 1,
        "metadata": {
            "lifecycles": [{"phase": "build"}],
            "component": {"type": "container", "bom-ref": "image", "name": title, "version": version},
        },
        "components": listed,
    }


def component(kind: str, name: str, version: str, purl: str = "", **more: Any) -> Component:
    """One entry; `purl` is its package URL, which is its reference too."""
    found = {"type": kind, "bom-ref": purl or f"{name}@{version}", "name": name, "version": version}
    return {**found, **({"purl": purl} if purl else {}), **more}


def os_release() -> dict[str, str]:
    """The values of /etc/os-release, without quotes."""
    lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    return {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines) if key}


def system_packages(release: dict[str, str]) -> Iterator[Component]:
    """Packages of dpkg or rpm. Raises EnvironmentSetupError where neither answers."""
    kind = "deb" if Path("/var/lib/dpkg/status").is_file() else "rpm"
    command = DPKG if kind == "deb" else RPM
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentSetupError(f"{command[0]} does not list the packages of this system: {error}") from error
    distro = f"{release.get('ID', 'linux')}-{release.get('VERSION_ID', '')}".rstrip("-")
    for line in listed.splitlines():
        status, name, version, architecture = line.split("\t")
        if status == "installed":
            where = f"?arch={quote(architecture, safe='')}&distro={quote(distro, safe='')}"
            purl = f"pkg:{kind}/{release.get('ID', 'linux')}/{quote(name, safe='')}@{quote(version, safe='')}{where}"
            yield component("library", name, version, purl)


def python_packages(environments: Path) -> Iterator[Component]:
    """Packages of every environment in a folder; each names those that it is in. Links to environments are left out."""
    for site in sorted(environments.glob("*/lib/python3*/site-packages")):
        home = site.parents[2]
        if home.is_symlink():
            continue
        for found in sorted(distributions(path=[str(site)]), key=lambda one: str(one.metadata["Name"]).lower()):
            yield python_package(found, home.name)


def python_package(found: Distribution, environment: str) -> Component:
    """A package with its licence as its metadata names it. Our own packages, which run where they lie, have no package
    URL: no index has them."""
    name, version = re.sub(r"[-_.]+", "-", str(found.metadata["Name"])).lower(), found.version
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    more: dict[str, Any] = {"properties": [{"name": "paddleocr-vl:environment", "value": environment}]}
    if licence := licence_of(found):
        more["licenses"] = licence
    if origin.get("dir_info", {}).get("editable"):
        return component("application", name, version, **more)
    return component("library", name, version, f"pkg:pypi/{quote(name, safe='')}@{quote(version, safe='')}", **more)


def licence_of(found: Distribution) -> list[dict[str, Any]]:
    """CycloneDX's `licenses`: the SPDX expression (PEP 639), else the classifiers or the first line of the text."""
    # Indexing gives None for a missing field, and warns of it in later versions of Python.
    if "License-Expression" in found.metadata:
        return [{"expression": str(found.metadata["License-Expression"])}]
    classifiers = [str(value) for value in found.metadata.get_all("Classifier") or ()]
    names = [value.rpartition(" :: ")[2] for value in classifiers if value.startswith("License :: ")]
    text = str(found.metadata["License"]) if "License" in found.metadata else ""
    first = text.strip().splitlines()[:1]
    return [{"license": {"name": name[:200]}} for name in (names or first) if name]


def cann(home: Path = Path("/usr/local/Ascend")) -> Iterator[Component]:
    """What CANN's own installers put into the system, which no package manager knows."""
    for file in sorted(home.glob("*/*/*/ascend_*_install.info")):
        values = dict(line.split("=", 1) for line in file.read_text(errors="replace").splitlines() if "=" in line)
        if not file.parents[1].is_symlink() and {"package_name", "version"} <= values.keys():
            yield component("library", values["package_name"].strip(), values["version"].strip())


def web_libraries(readme: Path) -> Iterator[Component]:
    """What the parser's page carries, from the table `| name | version | ... |` of its README."""
    if readme.is_file():
        for name, version in re.findall(r"(?m)^\| ([\w.-]+) \| (\d[\w.]*) \|", readme.read_text(encoding="utf-8")):
            yield component("library", name.lower(), version, f"pkg:npm/{name.lower()}@{version}")


def of_this_image(title: str, version: str) -> dict[str, Any]:
    """The bill of the system that this runs in. Raises EnvironmentSetupError where it would be empty."""
    release = os_release()
    parts = [*system_packages(release), *python_packages(ENVS_DIR), *cann(), *web_libraries(ROOT / VENDOR)]
    if not any(str(part.get("purl", "")).startswith("pkg:pypi/") for part in parts):
        raise EnvironmentSetupError(f"{ENVS_DIR} holds no environment with packages; a bill of materials names them")
    system = component("operating-system", release.get("ID", "linux"), release.get("VERSION_ID", ""))
    return bill(title, version, [system, *parts])


def write(words: list[str]) -> None:
    if len(words) != 2:
        raise UsageError(f"unknown words {' '.join(words)!r}; expected TITLE VERSION")
    text = json.dumps(of_this_image(*words), indent=1, ensure_ascii=False) + "\n"
    (ROOT / NAME).write_text(text, encoding="utf-8")
    os.chmod(ROOT / NAME, 0o644)


if __name__ == "__main__":
    sys.exit(run(lambda: write(sys.argv[1:])))
