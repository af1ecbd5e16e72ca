# SPDX-License-Identifier: Apache-2.0
"""What several groups of tests share: simulated parts, documents, processes, paths.

A module imports only what every environment that uses it has. `paths`, `wait`, `processes` and the simulated servers
need the standard library alone.
"""
