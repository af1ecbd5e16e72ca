# SPDX-License-Identifier: Apache-2.0
"""Which weights are served, where they lie, and whether they are whole. Standard library only.

Launcher, parser, preflight and self-test ask here, so that they agree:

    settings   the operator's settings: MODELS_DIR, VLM_MODEL, HARDWARE, LAYOUT_MODEL_DIR catalog    config/models.yaml:
    which models there are identity   signs that tell the weights of the entries apart vlm        the weights of the VLM
    layout     the weights of the layout model manifest   SHA256SUMS, whether files are the ones that it lists, and
    whether weights are the demo's
"""
