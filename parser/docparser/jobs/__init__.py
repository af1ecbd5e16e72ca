# SPDX-License-Identifier: Apache-2.0
"""Durable jobs: the hosted PaddleOCR job API, on the page scheduler of this service."""
