# SPDX-License-Identifier: Apache-2.0
"""Requests to addresses that clients name: to listed hosts only, and never into the network behind them.

A server that asks what a client names can be turned against its own network (server-side request forgery, OWASP
A10:2021). So each address must belong to a listed host and lead to an allowed network (``rules``). The network is
checked where the connection is made (``client``), so a name that resolves to another address a moment later
gains nothing.
"""
