#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run by the Dockerfiles as root: install_system.sh base|builder|vlm|parser, with apt (Debian, Ubuntu) or dnf (openEuler).
# A site's package sources come as the BuildKit secret `apt_sources`, its certificates as `ca_bundle`.
set -euo pipefail

role="$1"
ca=/run/secrets/ca_bundle

if command -v apt-get >/dev/null; then
    case "$role" in
        # CANN images bring a Python 3.11 of their own.
        base) packages=(ca-certificates); command -v python3.11 >/dev/null || packages+=(python3.11) ;;
        builder) packages=(); python3.11 -c 'import ensurepip' 2>/dev/null || packages+=(python3.11-venv) ;;
        kernels) packages=(gcc g++ make cmake git libnuma-dev) ;;
        vlm) packages=(haproxy libgomp1 libnuma1) ;;
        parser) packages=(libgl1 libglib2.0-0 libgomp1) ;;
        *) echo "unknown role $role" >&2; exit 2 ;;
    esac
    options=(-q -o Acquire::Retries=3)
    if [[ -s "$ca" ]]; then options+=(-o "Acquire::https::CaInfo=$ca"); fi
    if ((${#packages[@]})); then
        apt-get "${options[@]}" update
        DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends "${packages[@]}"
        rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/*
    fi
else
    case "$role" in
        base) packages=(ca-certificates shadow-utils); command -v python3.11 >/dev/null || packages+=(python3) ;;
        builder) packages=() ;;
        kernels) packages=(gcc gcc-c++ make cmake git numactl-devel) ;;
        vlm) packages=(haproxy libgomp numactl-libs) ;;
        parser) packages=(mesa-libGL glib2 libgomp) ;;
        *) echo "unknown role $role" >&2; exit 2 ;;
    esac
    options=(-q -y --setopt=install_weak_deps=False)
    if [[ -s "$ca" ]]; then options+=("--setopt=sslcacert=$ca"); fi
    if ((${#packages[@]})); then
        dnf "${options[@]}" install "${packages[@]}"
        dnf -q clean all
        rm -rf /var/cache/dnf /var/log/*
    fi
fi
