#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Simulated: TOOLKIT FOLDER
echo "custom_opp_compiler_version=simulated" >"$2/version.info"
