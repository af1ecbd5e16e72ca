# SPDX-License-Identifier: Apache-2.0
"""The demo vision-language model: tokenizer, training crops, model, training, export."""
