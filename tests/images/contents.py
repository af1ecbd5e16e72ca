# SPDX-License-Identifier: Apache-2.0
"""What an image may hold of ours: the folders and files that its container executes or reads, and nothing else."""

from __future__ import annotations

from tests.images.project import Project

HOME = "/opt/paddleocr-vl/"
# A name that ends with a slash is a folder, which is wholly allowed.
EVERY = (
    "LICENSE",
    "bom.cdx.json",
    "common/",
    "config/supervisord.conf",
    "config/models.yaml",
    "config/supervisor/guard.conf",
)
ALLOWED = {
    "vlm": (
        *EVERY,
        "config/haproxy.cfg",
        "config/supervisor/balancer.conf",
        "config/supervisor/layout.conf",
        "config/supervisor/vlm.conf",
        "model_code/layout_server/",
        "model_code/pyproject.toml",
        "model_code/vlm_models/",
        "model_code/vlm_server/",
        "operations/container/",
    ),
    "parser": (
        *EVERY,
        "config/pipelines/",
        "config/supervisor/parser.conf",
        # Empty but for a mark, unless the build was given LAYOUT_MODEL_SOURCE.
        "layout_model/",
        "operations/container/__init__.py",
        "operations/container/entrypoint.sh",
        "operations/container/guard.py",
        "operations/container/parser.py",
        "operations/container/supervisord.py",
        "parser/docparser/",
        "parser/opencv_contrib_python/",
        "parser/pyproject.toml",
    ),
}


def source(name: str) -> str:
    """The file that a bytecode file was compiled from; other names as they are."""
    if "/__pycache__/" not in name:
        return name
    folder, _, file = name.partition("/__pycache__/")
    return f"{folder}/{file.partition('.')[0]}.py"


def check_contents(project: Project, service: str, image: str) -> None:
    """Compare the files below /opt/paddleocr-vl with `ALLOWED`: none beside the list, and none of the list missing."""
    listed = project.printed(image, "find", HOME, "-type", "f")
    files = {source(line.removeprefix(HOME)) for line in listed.splitlines() if line.startswith(HOME)}

    def covers(entry: str, name: str) -> bool:
        return name.startswith(entry) if entry.endswith("/") else name == entry

    allowed = ALLOWED[service]
    assert sorted(name for name in files if not any(covers(entry, name) for entry in allowed)) == []
    assert [entry for entry in allowed if not any(covers(entry, name) for name in files)] == []
