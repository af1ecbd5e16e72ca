# SPDX-License-Identifier: Apache-2.0
"""Documents page by page through the worker processes."""
