# SPDX-License-Identifier: Apache-2.0
"""Choose how the services run: in containers (`docker`) or as processes of this machine (`local`)."""

from __future__ import annotations

import argparse

from bundle.compose.containers import Containers
from bundle.demo.prepare import environments
from bundle.environments.setup import is_ready
from bundle.local_mode.services import Services
from bundle.local_mode.settings import LocalSettings
from bundle.progress import say
from tool_errors import ToolError


def choose(options: argparse.Namespace, settings: LocalSettings, services: Services, containers: Containers) -> str:
    """Return `docker` or `local`. With `--mode auto`: what runs already; else docker if an engine answers.

    Auto takes local mode if there are no images while local mode's environments are there, and, with a message, if the
    containers are another folder's, or the images cannot be built.
    """
    if options.mode != "auto":
        return options.mode
    if services.running() or not containers.suits_this_machine():
        return "local"
    if folder := containers.elsewhere():
        say(f"the containers of this node were made in {folder}; going on without them (--mode local)")
        return "local"
    if options.down:
        return "docker" if containers.exist() else "local"
    if not containers.has_images():
        if all(is_ready(environment) for environment in environments(settings)):
            return "local"
        try:
            containers.build()
        except ToolError as error:
            say(f"{error}; going on without containers (--mode local)")
            return "local"
    return "docker"
