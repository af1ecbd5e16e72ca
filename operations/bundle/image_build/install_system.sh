#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prepare the system of an image's stage, as root, with apt (Debian, Ubuntu) or dnf (openEuler): install_system.sh STAGE
# `base` also makes the service's user and its folders. A site's package sources for apt come as the BuildKit secret
# `apt_sources`, its certificates as `ca_bundle`.
set -euo pipefail

stage="$1"
ca=/run/secrets/ca_bundle
sources=/run/secrets/apt_sources
site_list=/etc/apt/sources.list.d/site.list

apt_packages() {
    case "$stage" in
        # CANN images bring a Python 3.11 of their own.
        base) packages=(ca-certificates); command -v python3.11 >/dev/null || packages+=(python3.11) ;;
        builder) packages=(); python3.11 -c 'import ensurepip' 2>/dev/null || packages+=(python3.11-venv) ;;
        kernels) packages=(gcc g++ make cmake git libnuma-dev) ;;
        vlm) packages=(haproxy libgomp1 libnuma1) ;;
        parser) packages=(libgomp1) ;;
        *) return 1 ;;
    esac
}

dnf_packages() {
    case "$stage" in
        base) packages=(ca-certificates shadow-utils); command -v python3.11 >/dev/null || packages+=(python3) ;;
        builder) packages=() ;;
        kernels) packages=(gcc gcc-c++ make cmake git numactl-devel) ;;
        vlm) packages=(haproxy libgomp numactl-libs) ;;
        parser) packages=(libgomp) ;;
        *) return 1 ;;
    esac
}

# One file of sources serves images of several releases, so an image takes the lines that name its own. They take the
# place of the image's own sources: a site's proxy may refuse those, and one refusal ends apt-get update.
use_site_sources() {
    local release
    # shellcheck source=/dev/null
    release="$(. /etc/os-release && echo "$VERSION_CODENAME")"
    if grep -E "^deb .*\b$release\b" "$sources" >"$site_list"; then
        options+=(-o "Dir::Etc::SourceList=$site_list" -o Dir::Etc::SourceParts=-)
    else
        echo "APT_SOURCES has no line \`deb ... $release ...\`; the image's own sources are used" >&2
    fi
}

apt_install() {
    local options=(-q -o Acquire::Retries=3)
    if [[ -s "$sources" ]]; then use_site_sources; fi
    if [[ -s "$ca" ]]; then options+=(-o "Acquire::https::CaInfo=$ca"); fi
    apt-get "${options[@]}" update
    DEBIAN_FRONTEND=noninteractive apt-get "${options[@]}" install -y --no-install-recommends "$@"
    rm -rf "$site_list" /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* /var/log/*
}

dnf_install() {
    local options=(-q -y --setopt=install_weak_deps=False)
    if [[ -s "$ca" ]]; then options+=("--setopt=sslcacert=$ca"); fi
    dnf "${options[@]}" install "$@"
    dnf -q clean all
    rm -rf /var/cache/dnf /var/log/*
}

make_service_user() {
    groupadd --gid 10001 service
    useradd --uid 10001 --gid 10001 --no-create-home --home-dir /run/paddleocr-vl/home --shell /sbin/nologin service
    install -d -o service -g service -m 0700 /run/paddleocr-vl /var/lib/paddleocr-vl
}

manager=dnf
if command -v apt-get >/dev/null; then manager=apt; fi
"${manager}_packages" || {
    echo "error: unknown stage '$stage'; expected base, builder, kernels, vlm or parser" >&2
    exit 2
}
if ((${#packages[@]})); then "${manager}_install" "${packages[@]}"; fi
if [[ "$stage" == base ]]; then make_service_user; fi
