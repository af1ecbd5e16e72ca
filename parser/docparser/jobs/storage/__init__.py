# SPDX-License-Identifier: Apache-2.0
"""Where jobs are kept: database and files."""
