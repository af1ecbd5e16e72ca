# SPDX-License-Identifier: Apache-2.0
"""The steps inside image builds."""
