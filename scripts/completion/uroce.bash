# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of uroce and uroce-run in bash. Source it, or install it as .../bash-completion/completions/uroce and
# .../uroce-run. The command itself knows what may come next (uroce words); programs and files are the shell's.

# _uroce_run COMMAND FIRST: complete the words of uroce-run, from the one with this index on.
_uroce_run() {
	local current=${COMP_WORDS[COMP_CWORD]} at=$2 options
	while ((at < COMP_CWORD)); do
		case ${COMP_WORDS[at]} in
		-d | --device | --devices | -b | --build) at=$((at + 2)) ;;
		--)
			at=$((at + 1))
			break
			;;
		-*) at=$((at + 1)) ;;
		*) break ;;
		esac
	done
	if ((at > COMP_CWORD)); then # the value of an option
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		-b | --build) mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
		esac
	elif ((at < COMP_CWORD)); then # the command's own words, by its completion if that is there
		if declare -F _command_offset >/dev/null; then
			_command_offset "$at"
		else
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
		fi
	elif [[ $current == -* && ${COMP_WORDS[COMP_CWORD - 1]} != -- ]]; then
		options=$("$1" --help 2>/dev/null | grep -o -- '--[a-z][a-z-]*')
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
	else
		mapfile -t COMPREPLY < <(compgen -c -- "$current" | sort -u)
	fi
}

_uroce() {
	local current=${COMP_WORDS[COMP_CWORD]} candidates
	case ${COMP_WORDS[0]##*/}:${COMP_WORDS[1]}:$COMP_CWORD in
	uroce-run:*)
		_uroce_run "${COMP_WORDS[0]}" 1
		return
		;;
	*:run:[2-9]* | *:run:1?*)
		_uroce_run "${COMP_WORDS[0]}-run" 2
		return
		;;
	*:capture:2)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	esac
	# A colon splits words in bash: addresses of IPv6 are completed as far as that allows.
	candidates=$("${COMP_WORDS[0]}" words $((COMP_CWORD - 1)) "${COMP_WORDS[@]:1}" 2>/dev/null)
	mapfile -t COMPREPLY < <(compgen -W "$candidates" -- "$current")
}
complete -F _uroce uroce uroce-run
