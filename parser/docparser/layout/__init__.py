# SPDX-License-Identifier: Apache-2.0
"""The layout model on the layout server; and on OpenVINO: from Paddle's program to a graph, made once and kept.

operators              what each operation is in OpenVINO's nodes
conversion             the whole program as a model, compared with Paddle, in a process of its own
graph                  where the graphs are kept, and OpenVINO running one
served                 the client of the layout server
"""
