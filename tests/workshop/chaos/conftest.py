# SPDX-License-Identifier: Apache-2.0
"""The engine and the images are those of the tests of images."""

from tests.images.conftest import build_environment, cpu_images, engine, wheels

__all__ = ["build_environment", "cpu_images", "engine", "wheels"]
