# SPDX-License-Identifier: Apache-2.0
"""The routes of the job API."""
