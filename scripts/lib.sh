# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Helpers for the scripts of this folder; source it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Packages: packages_install, package_unpack.
# shellcheck source=scripts/packages
. "$ROOT/scripts/packages"

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
