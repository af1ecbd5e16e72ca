# SPDX-License-Identifier: Apache-2.0
"""What stops the launcher, each said in one line; all of them end it with status 2."""


class LauncherError(Exception):
    """Base of the launcher's errors."""


class SettingError(LauncherError):
    """An environment variable or an entry of models.yaml has a value that cannot be used."""


class WeightsError(LauncherError):
    """The weights are missing, incomplete, or not the ones that their manifest lists."""
