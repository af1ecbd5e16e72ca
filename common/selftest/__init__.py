# SPDX-License-Identifier: Apache-2.0
"""The self-test: golden blocks through a running VLM server, against recorded values. Standard library only."""
