# SPDX-License-Identifier: Apache-2.0
"""scripts/explain_inputs.py: what a model sees of images and videos."""
