# SPDX-License-Identifier: Apache-2.0
"""Which weights are served, where they lie, and whether they are whole. Standard library only.

Launcher, parser, preflight and self-test ask here, so that they agree:

- settings: the operator's: MODELS_DIR, VLM_MODEL, HARDWARE, LAYOUT_MODEL_DIR, MODELS_CONFIG
- catalog: config/models.yaml, which models there are; yaml_subset reads it without PyYAML
- identity: signs that tell the weights of the entries apart
- question: the words and the bounds of pixels with which a model is asked
- vlm, layout: the weights of the VLM and of the layout model
- manifest: SHA256SUMS, whether files are those that it lists, and whether weights are the demo's
- placing: how fetched weights get to their folder only when they are whole
"""
