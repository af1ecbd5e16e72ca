# SPDX-License-Identifier: Apache-2.0
"""What Paddle saves of a model, read without Paddle: the program (PIR is Paddle's intermediate representation) and its
parameters. Needs NumPy, which both who run such programs have: the parser on OpenVINO, the layout server on torch."""
