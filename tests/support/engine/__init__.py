# SPDX-License-Identifier: Apache-2.0
"""A container engine for machines that have none: from Debian's packages, unpacked into a folder, started and ended
here."""
