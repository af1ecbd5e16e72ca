# SPDX-License-Identifier: Apache-2.0
"""Paddle's saved models, read without Paddle: programs (PIR is Paddle's intermediate representation), parameters, and
the walk over a program's operations. The parser walks with OpenVINO, the layout server with PyTorch. Needs NumPy, which
both have."""
