# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# shellcheck disable=SC2034 # the lists are used by those who source this
# Package lists and helpers for the scripts of this folder; source it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# To build everything and run the unit and simulation tests.
PACKAGES_BUILD="build-essential meson ninja-build pkg-config python3 libdpdk-dev libisal-dev libibverbs-dev libnuma-dev
	libbsd-dev libpcap-dev libcmocka-dev libfabric-dev libsodium-dev librdmacm-dev"
# Programs that run over uroce.
PACKAGES_PROGRAMS="ibverbs-utils rdmacm-utils perftest libfabric-bin iproute2 util-linux procps"
# Programs that reach the NIC through its libfabric provider: Open MPI, and its headers for one of our tests.
PACKAGES_MPI="openmpi-bin libopenmpi-dev"
# Peers, and a packet decoder: tests skip where they are missing.
PACKAGES_PEERS="infiniband-diags ucx-utils libucx-dev tshark"
# Programs that connect through librdmacm; their tests skip those that are missing.
PACKAGES_RDMACM="fio qperf libiscsi-bin qemu-system-x86 seabios qemu-utils qemu-block-extra dapl2-utils
	python3-pyverbs librpma-dev curl netcat-traditional iperf"
# The same: 200 MB, only where the real programs are run.
PACKAGES_CEPH="ceph-mon ceph-osd ceph-common"
# For the test of containers, which skips where it cannot run them: 90 MB with podman's dependencies.
PACKAGES_CONTAINERS="podman runc"
# For the demonstration, and for the developer's checks.
PACKAGES_DEMO="tcpdump"
PACKAGES_CHECK="clang clang-tidy clang-format git"
# To build for other architectures and to run what was built; then what is unpacked for them (tests/cross/sysroot), for
# nic/ alone and for the whole tree.
PACKAGES_CROSS="gcc-aarch64-linux-gnu gcc-s390x-linux-gnu libc6-dev-arm64-cross libc6-dev-s390x-cross qemu-user-static"
PACKAGES_TARGET_NIC="libcmocka-dev libisal-dev libsodium-dev"
PACKAGES_TARGET="$PACKAGES_TARGET_NIC libdpdk-dev libibverbs-dev libnuma-dev libbsd-dev libpcap-dev libfabric-dev
	librdmacm-dev"

say() { printf '%s\n' "$*"; }

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Print the comment at the head of the running script: its help.
help_show() {
	sed -n '3,/^[^#]/ s/^# \{0,1\}//p' "$0"
	exit 0
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# Print those of the named packages that are not installed.
packages_missing() {
	local name
	for name in "$@"; do
		dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed ||
			printf '%s ' "$name"
	done
}

# Install the missing ones of the named packages; an ordinary user is told what to install.
packages_install() {
	local missing try log
	command -v dpkg-query >/dev/null || die "this script knows Debian's packages only; install by hand: $*"
	# shellcheck disable=SC2048,SC2086
	missing=$(packages_missing $*)
	[ -n "$missing" ] || return 0
	is_root || die "please have these packages installed first: apt-get install --no-install-recommends $missing"
	say "installing: $missing"
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp) || exit 1
	for try in 1 2 3; do
		# shellcheck disable=SC2086
		if apt-get update -qq >"$log" 2>&1 && apt-get -o DPkg::Lock::Timeout=300 install -qq -y \
			--no-install-recommends $missing >>"$log" 2>&1; then
			rm -f "$log"
			return 0
		fi
		say "apt-get failed (attempt $try of 3)"
		[ "$try" -eq 3 ] || sleep $((5 * try))
	done
	tail -n 5 "$log" >&2
	rm -f "$log"
	die "cannot install: $missing"
}

# package_unpack NAME FOLDER: unpack a package without installing it, for a test that skips where this fails.
package_unpack() {
	local folder
	[ ! -e "$2/$1" ] || return 0
	mkdir -p "$2"
	folder=$(mktemp -d "$2/new.XXXXXX") || exit 1
	if (cd "$folder" && apt-get download -qq "$1" && dpkg-deb -x "$1"_*.deb new) >"$folder/log" 2>&1 &&
		mv "$folder/new" "$2/$1"; then
		say "unpacked: $1"
	else
		say "cannot unpack $1: $(tail -n 1 "$folder/log")"
	fi
	rm -rf "$folder"
}

# Print the build folder: UROCE_BUILD, else build/ in the checkout.
build_folder() { printf '%s\n' "${UROCE_BUILD:-$ROOT/build}"; }

# build_make FOLDER [meson options]: configure (once) and compile. Quiet unless it fails.
build_make() {
	local folder=$1 log
	shift
	mkdir -p "$folder" 2>/dev/null || true
	if [ ! -w "$folder" ] || { [ -e "$folder/.ninja_log" ] && [ ! -w "$folder/.ninja_log" ]; }; then
		die "cannot write to $folder (has root built there?); name another build folder with UROCE_BUILD"
	fi
	log=$folder/build-log.txt
	if [ -e "$folder/build.ninja" ]; then
		ninja -C "$folder" >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "the build failed; see $log"; }
		return
	fi
	{ meson setup "$folder" "$ROOT" "$@" && ninja -C "$folder"; } >"$log" 2>&1 ||
		{ tail -n 40 "$log" >&2; die "the build failed; see $log"; }
}
