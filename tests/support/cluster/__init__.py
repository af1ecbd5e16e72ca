# SPDX-License-Identifier: Apache-2.0
"""A simulated Kubernetes cluster of one node: rendered pods as real containers, started by the container engine.

    volumes    what a pod's volumes are on the node
    container  one container: the words it is run with, and its probes
    states     which containers run
    pod        containers that share a network; readiness, restarts, the end
    service    an address in front of pods
    cluster    the objects: pods of Deployments, Jobs, evictions
    kuberay    pods of a RayCluster

It does what the kubelet, kube-proxy and the controllers do with the fields that our objects use, and refuses fields
that it does not know. It cannot show admission, scheduling, network policies, real volumes, several nodes, or what a
container runtime other than the engine's does.
"""
