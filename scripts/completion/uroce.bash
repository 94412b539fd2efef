# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of the uroce command in bash. Source it, or install it as .../bash-completion/completions/uroce.
# The command itself knows what may come next (uroce words); programs and files are the shell's.

_uroce() {
	local current=${COMP_WORDS[COMP_CWORD]} candidates
	case ${COMP_WORDS[1]}:$COMP_CWORD in
	run:[2-9]*)
		[[ $current == -* ]] || mapfile -t COMPREPLY < <(compgen -c -- "$current")
		return
		;;
	capture:2)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	esac
	# A colon splits words in bash: addresses of IPv6 are completed as far as that allows.
	candidates=$("${COMP_WORDS[0]}" words $((COMP_CWORD - 1)) "${COMP_WORDS[@]:1}" 2>/dev/null)
	mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$current")
}
complete -F _uroce uroce
