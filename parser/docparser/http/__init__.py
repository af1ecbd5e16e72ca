# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface. Only this package and the app factory use FastAPI."""
