# SPDX-License-Identifier: Apache-2.0
"""What bounds a connection before the application sees anything of it: numbers, times, least rates."""
