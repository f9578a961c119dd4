#!/bin/sh
# The programs of the nursery, all traced by ingero; $SIM is their directory. Each program that
# ends reports its calls in out/PHASE.*; PHASE is the content of the file phase at its start. A
# program killed in its fourth call cannot, so storm reports for it. After a report comes a time by
# which it had ended. Loops write their number of rounds to run/, and end when the file
# stop-storms exists. Each wrong exit status is a line in failures.
round() { # LOOP
	rounds=$((rounds + 1))
	echo $rounds >"run/$1.new" && mv "run/$1.new" "run/$1"
}

ended() { # LOOP: adds the time, by the machine's clock, to reports without one
	read -r up _ </proc/uptime
	echo "at $up" >>"out/$part.$1"
}

storm() { # LOOP WANT NAME ARGS...: runs a program repeatedly; its exit code must be WANT
	loop=$1 want=$2 name=$3 rounds=0
	shift 3
	while [ ! -e stop-storms ]; do
		read -r part <phase
		"$SIM/$name" "$@" >>"out/$part.$loop" &
		pid=$!
		{ wait $pid; } 2>/dev/null # hides the shell's message about the kill
		code=$?
		[ $code != 137 ] || echo '{"program": "multi", "pid": '$pid', "entered": 4}' >>"out/$part.$loop"
		ended "$loop"
		[ $code = "$want" ] || echo "$name $*: exit code $code, want $want" >>failures
		round "$loop"
		sleep 0.5
	done
	echo over >"run/$loop"
}

# Runs a process with the PID of a traced process that has just ended.
reuse() {
	rounds=0
	while [ ! -e stop-storms ]; do
		read -r part <phase
		"$SIM/calls" launch 50 >>"out/$part.first" &
		pid=$!
		wait $pid || echo "calls: exit code $?" >>failures
		ended first
		for _ in 1 2 3 4 5; do
			echo $((pid - 1)) >/proc/sys/kernel/ns_last_pid
			"$SIM/calls" memset 70 >>"out/$part.second" &
			again=$!
			wait $again || echo "calls: exit code $?" >>failures
			ended second
			[ $again = $pid ] && echo $pid >>reused && break
		done
		round reuse
		sleep 0.5
	done
	echo over >run/reuse
}
