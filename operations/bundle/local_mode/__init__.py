# SPDX-License-Identifier: Apache-2.0
"""The two services as processes of this machine, under supervisord."""
