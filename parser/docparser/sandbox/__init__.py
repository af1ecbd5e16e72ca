# SPDX-License-Identifier: Apache-2.0
"""Child processes with bounds of CPU time, time, memory and output, for work over text that strangers wrote.

A **zygote** is a process with one thread that has imported what the work needs. It forks a **child** in milliseconds. A
child performs one job after the other; it is killed when a job exceeds a bound, and another takes its place. The
children end with the zygote, and the zygote ends with the process that started it, also when that was killed. Before
its first job a child gives up all files, the network and other processes (``isolation``), except the files that the job
opens by their paths.
"""
