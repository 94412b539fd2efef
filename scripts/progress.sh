# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Shows how far a long command is; source it. On a terminal one line is rewritten every second; in a log a line comes
# every 10 seconds: "building: 120 of 470". What the command writes goes into a file.

PROGRESS_EVERY=10 # seconds from line to line in a log
PROGRESS_NEWS=    # a filter: in a log, what it passes of the command's output is printed as well, as it comes
PROGRESS_PID=    # the running command, and what shows its progress
PROGRESS_TICKER=
PROGRESS_TELLER= # prints the news

# progress_run LABEL LOG READER COMMAND...: run a command or a function, its output in the file LOG.
# READER is a function that prints what LOG (its argument) says of the progress. Returns the command's exit code.
# SIGHUP, SIGINT and SIGTERM end the command with all its processes, then do to the script what they would have done.
progress_run() {
	local label=$1 log=$2 reader=$3 code=0 traps fd signal
	shift 3
	: >"$log" || return 1
	exec {fd}<> <(:) # never has anything to read: where to wait without a process, which would outlive us
	# A process group of its own: it can be ended as a whole, and does not start with SIGINT ignored.
	set -m
	"$@" </dev/null >"$log" 2>&1 {fd}>&- &
	PROGRESS_PID=$!
	set +m
	traps=$(trap -p HUP INT TERM)
	# shellcheck disable=SC2064 # as they are now
	for signal in HUP INT TERM; do
		trap "progress_stop; trap - HUP INT TERM; $traps
			kill -s $signal \$BASHPID" "$signal"
	done
	progress_tick "$label" "$log" "$reader" "$fd" $$ &
	PROGRESS_TICKER=$!
	if [ -n "$PROGRESS_NEWS" ] && [ ! -t 1 ]; then
		tail -n +1 -f --pid="$PROGRESS_TICKER" "$log" {fd}>&- | "$PROGRESS_NEWS" {fd}>&- &
		PROGRESS_TELLER=$!
	fi
	wait "$PROGRESS_PID" || code=$?
	PROGRESS_PID=
	trap - HUP INT TERM
	eval "$traps"
	progress_tick_stop
	exec {fd}>&-
	progress_show "$label" "$("$reader" "$log")" last
	return "$code"
}

progress_tick_stop() {
	kill "$PROGRESS_TICKER" 2>/dev/null || true
	wait "$PROGRESS_TICKER" 2>/dev/null || true
	[ -z "$PROGRESS_TELLER" ] || wait "$PROGRESS_TELLER" || true # reads on for a second after the ticker
	PROGRESS_TELLER=
}

# End the running command and the processes of its group; those that do not end within 15 seconds are killed.
progress_stop() {
	local i
	[ -n "$PROGRESS_PID" ] || return 0
	kill -TERM -- "-$PROGRESS_PID" 2>/dev/null || true
	for ((i = 0; i < 150; i++)); do
		kill -0 -- "-$PROGRESS_PID" 2>/dev/null || break
		sleep 0.1
	done
	kill -KILL -- "-$PROGRESS_PID" 2>/dev/null || true
	PROGRESS_PID=
	progress_tick_stop # last: it waits until the news are printed
	[ ! -t 1 ] || printf '\r\033[K'
}

# Show the progress until killed, or until the script has gone.
progress_tick() {
	local label=$1 log=$2 reader=$3 fd=$4 script=$5 every=$PROGRESS_EVERY
	trap - HUP INT TERM EXIT
	[ ! -t 1 ] || every=1
	while [ -e "/proc/$script/exe" ]; do # not so of a zombie
		read -r -t "$every" -u "$fd" || true
		progress_show "$label" "$("$reader" "$log")"
	done
}

# progress_show LABEL TEXT [last]: a log keeps the last state, a terminal does not.
progress_show() {
	if [ ! -t 1 ]; then
		printf '%s: %s\n' "$1" "$2"
	elif [ -n "${3:-}" ]; then
		printf '\r\033[K'
	else
		printf '\r\033[K%.79s' "$1: $2"
	fi
}

# Readers of the logs of ninja (NINJA_STATUS="[%f/%t] "), of meson test, and of an installation.
progress_of_build() {
	awk '/^\[[0-9]+\/[0-9]+\]/ {split(substr($1, 2), part, /[\/\]]/)}
		/^ninja: no work to do/ {idle = 1}
		END {
			if (idle) print "nothing to do"
			else if (part[2]) print part[1], "of", part[2]
			else print "configuring"
		}' "$1"
}

progress_of_tests() {
	awk '/^Summary of Failures/ {exit}
		/^ *[0-9]+\/[0-9]+ / && / (OK|EXPECTEDFAIL|SKIP|FAIL|ERROR|TIMEOUT|INTERRUPT|UNEXPECTEDPASS) / {
			split($1, part, "/")
			done++
			total = part[2]
			if (/ (FAIL|ERROR|TIMEOUT|INTERRUPT|UNEXPECTEDPASS) /) {
				for (i = 2; $i ~ /[:\/]/; i++);
				failed++
				names = names (names ? " " : "") $i
			}
		}
		END {
			if (!total) print "no test is done yet"
			else {
				if (names) names = " (" names ")"
				print done, "tests done,", failed + 0, "failed" names ",", total - done, "left"
			}
		}' "$1"
}

# Of the tests in the emulated machine of scripts/check arm64 (tests/cross/guest_tests.py).
progress_of_guest() {
	awk '/^[0-9]+\/[0-9]+ / {
			split($1, part, "/")
			total = part[2]
			if ($3 !~ /^(OK|SKIP)$/) {
				failed++
				names = names (names ? " " : "") $2
			}
		}
		END {
			if (!total) print "the machine starts"
			else {
				if (names) names = " (" names ")"
				print part[1], "of", total, "tests done,", failed + 0, "failed" names
			}
		}' "$1"
}

progress_of_packages() {
	awk '/^[0-9]+ upgraded, [0-9]+ newly installed/ {total = $1 + $3}
		/^Need to get / {of = " of " $4 " " $5}
		/^Get:[0-9]+ / {what = "downloading " ++got " of " total of ": " $5}
		/^Unpacking / {what = "unpacking " ++unpacked " of " total ": " $2}
		/^Setting up / {what = "setting up " ++set " of " total ": " $3}
		END {print what ? what : "preparing"}' "$1"
}

# Of the making of a Debian package: ninja's lines while it compiles, debhelper's commands before and after that.
progress_of_deb() {
	awk '/^\[[0-9]+\/[0-9]+\]/ {split(substr($1, 2), part, /[\/\]]/); what = part[1] " of " part[2]}
		/^   dh_[a-z_]+/ {what = $1}
		END {print what ? what : "preparing"}' "$1"
}
