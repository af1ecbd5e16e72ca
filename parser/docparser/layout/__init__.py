# SPDX-License-Identifier: Apache-2.0
"""The layout model on the layout server; and on OpenVINO: from Paddle's program to a graph, made once and kept.

operators              what each operation is in OpenVINO's nodes
translation            the whole program as a model
engine                 OpenVINO running it
conversion             translation and comparison with Paddle, in a process of their own
graph_cache            where the graphs are kept
served                 the client of the layout server
"""
