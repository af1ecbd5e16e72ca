# SPDX-License-Identifier: Apache-2.0
# find_package(Torch) for a CUDA build of torch where there is no CUDA toolkit (build_kernels.sh sets Torch_ROOT).
# The plain x86-64 wheel's own configuration looks for the toolkit and ends the build without one, although nothing here
# is compiled for CUDA. It looks only while the target torch::cudart does not exist, so that target is made first, with
# nothing behind it. The rest is the wheel's configuration, unchanged (decision 0414).
if(NOT TARGET torch::cudart)
  add_library(torch::cudart INTERFACE IMPORTED)
endif()
include("$ENV{TORCH_CMAKE_PREFIX}/Torch/TorchConfig.cmake")
