# SPDX-License-Identifier: Apache-2.0
"""Videos of a request: which of their frames the model sees, and how they are decoded within bounds."""
