# SPDX-License-Identifier: Apache-2.0
"""The contract of the parsing API: schemas of requests, options, layout classes."""
