#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Simulated: CANN ships a longer one. Upstream names its vendor in it.
vendor_name=customize
echo "$vendor_name"
