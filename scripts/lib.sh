# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Helpers for the scripts of this folder; source it.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Packages: packages_install, package_unpack.
# shellcheck source=scripts/packages
. "$ROOT/scripts/packages"

# shellcheck source=scripts/progress.sh
. "$ROOT/scripts/progress.sh"

# shellcheck source=scripts/say.sh
. "$ROOT/scripts/say.sh"

# sources_copy FOLDER: copy what git knows of the checkout and what it does not ignore; without git, all but build
# folders. The folder that FOLDER is in is not copied.
sources_copy() {
	local above
	above=$(realpath -m "${1%/*}")
	[ "$above" != "$ROOT" ] || die "the sources cannot be copied into the checkout itself"
	mkdir "$1"
	if [ -n "$(git -C "$ROOT" ls-files meson.build 2>/dev/null)" ]; then
		(cd "$ROOT" && git ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				[[ $ROOT/$file = "$above"/* || ! -e $file ]] || printf '%s\0' "$file"
			done |
			tar --null -T - -cf -) | tar -C "$1" -xf -
	else
		tar -C "$ROOT" --exclude=./build --exclude='./build-*' --exclude=./.git \
			--exclude="./${above#"$ROOT/"}" -cf - . | tar -C "$1" -xf -
	fi
}

# Print the build folder: UROCE_BUILD, else build/ in the checkout.
build_folder() { printf '%s\n' "${UROCE_BUILD:-$ROOT/build}"; }

# build_make FOLDER [meson options]: configure (once) and compile. Shows the progress; the output only if it fails.
# -Dtests=true also applies to a folder that was configured without tests.
build_make() {
	local folder=$1 log
	mkdir -p "$folder" 2>/dev/null || true
	if [ ! -w "$folder" ] || { [ -e "$folder/.ninja_log" ] && [ ! -w "$folder/.ninja_log" ]; }; then
		die "cannot write to $folder (has root built there?); name another build folder with UROCE_BUILD"
	fi
	log=$folder/build-log.txt
	progress_run building "$log" progress_of_build build_steps "$@" ||
		{ tail -n 40 "$log" >&2; die "the build failed; see $log"; }
}

build_steps() { # FOLDER [meson options]
	local folder=$1
	shift
	if [ ! -e "$folder/build.ninja" ]; then
		meson setup "$folder" "$ROOT" "$@"
	elif [[ " $* " = *" -Dtests=true "* ]] && ! build_has_tests "$folder"; then
		meson configure "$folder" -Dtests=true
	fi && NINJA_STATUS="[%f/%t] " exec ninja -C "$folder"
}

build_has_tests() {
	python3 -c 'import json, sys
with open(sys.argv[1]) as f:
    sys.exit(any(option["name"] == "tests" and not option["value"] for option in json.load(f)))' \
		"$1/meson-info/intro-buildoptions.json"
}
