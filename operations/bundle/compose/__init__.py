# SPDX-License-Identifier: Apache-2.0
"""The two services in containers, and the compose fragments for chosen dies."""
