# SPDX-License-Identifier: Apache-2.0
"""What survives of jobs: database and files."""
