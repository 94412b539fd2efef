# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What scripts say, and those also that are installed; source it.

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
