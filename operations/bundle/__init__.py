# SPDX-License-Identifier: Apache-2.0
"""The modules that the scripts run.

They need the standard library only, since they run before any environment exists.
"""
