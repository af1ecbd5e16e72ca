# SPDX-License-Identifier: Apache-2.0
"""An image's bill of materials against what is installed in it, read in another way than the bill was made."""

from __future__ import annotations

import json
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from bundle.image_build.bill import NAME
from bundle.offline.bills import HOME
from tests.images.project import Project

# One line for each package: from dpkg's own database, and from the metadata that installers leave beside the code.
LISTED = r"""
dpkg-query --show --showformat '${db:Status-Abbrev}deb ${Package} ${Version}\n' | sed -n 's/^ii *//p'
# Only what is installed itself: setuptools carries other packages in a folder of its own.
find -P /opt/venv/*/lib*/python3*/site-packages -maxdepth 2 -path '*.dist-info/METADATA' -exec awk '
    FNR == 1 { name = version = "" }
    { sub(/\r$/, "") }  # sniffio has lines that end as on Windows
    /^Name: / && !name { name = $2 }
    /^Version: / && !version { version = $2 }
    name && version { print "python", name, version; nextfile }' {} +
"""


def valid_bill(text: str) -> dict[str, Any]:
    """The document; fails where it is not CycloneDX 1.6."""
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert wrong is None, wrong
    return json.loads(text)


def normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def check_bill(project: Project, image: str) -> None:
    """The bill names each installed package with its version, and no other."""
    found = valid_bill(project.printed(image, "cat", f"{HOME}/{NAME}"))
    listed = project.printed(image, "bash", "-c", LISTED).splitlines()
    rows = [tuple(line.split()) for line in listed]
    packages = {(kind, name if kind == "deb" else normal(name), version) for kind, name, version in rows}
    billed = set()
    for one in found["components"]:
        purl = one.get("purl", "")
        if purl.startswith("pkg:deb/"):
            billed.add(("deb", one["name"], one["version"]))
        elif purl.startswith("pkg:pypi/") or one["type"] == "application":
            billed.add(("python", normal(one["name"]), one["version"]))
    assert billed == packages
    assert (
        len([row for row in packages if row[0] == "deb"]) > 60
        and len([row for row in packages if row[0] != "deb"]) > 60
    )
