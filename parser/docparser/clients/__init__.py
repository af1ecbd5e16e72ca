# SPDX-License-Identifier: Apache-2.0
"""Who may ask, and how much: keys, quotas and their use, hosts and origins, the audit log."""
