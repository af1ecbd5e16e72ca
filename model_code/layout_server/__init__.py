# SPDX-License-Identifier: Apache-2.0
"""The layout model on a device, for all workers of the parser: a server beside the VLM's replicas.

operators      what each operation of Paddle is in PyTorch
interpreter    the published program, run with them
plan           the program for a number of pages, as a list of PyTorch's own operators on a device
model          one page or many, by plans
batching       pages of all clients together
app            HTTP
"""
