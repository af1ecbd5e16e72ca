# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/bench_parser.py."""
