#!/bin/sh
# What the nursery runs, of which ingero traces all: $SIM has the programs. Each that ends
# says in out/PHASE.* what it did; PHASE is what the file phase has as it starts. For one that
# is killed in its fourth call storm says it; behind it is said when it had ended. Loops say in
# run/ how often they have been round, and end once there is a file stop-storms. What ends as it
# should not is a line in failures.
round() { # LOOP
	rounds=$((rounds + 1))
	echo $rounds >"run/$1.new" && mv "run/$1.new" "run/$1"
}

ended() { # LOOP: what is in the file without a time had ended by now, by the machine's clock
	read -r up _ </proc/uptime
	echo "at $up" >>"out/$part.$1"
}

storm() { # LOOP WANT NAME ARGS...: a program whose exit code is to be WANT, again and again
	loop=$1 want=$2 name=$3 rounds=0
	shift 3
	while [ ! -e stop-storms ]; do
		read -r part <phase
		"$SIM/$name" "$@" >>"out/$part.$loop" &
		pid=$!
		{ wait $pid; } 2>/dev/null # or the shell says that it was killed
		code=$?
		[ $code != 137 ] || echo '{"program": "multi", "pid": '$pid', "entered": 4}' >>"out/$part.$loop"
		ended "$loop"
		[ $code = "$want" ] || echo "$name $*: exit code $code, want $want" >>failures
		round "$loop"
		sleep 0.5
	done
	echo over >"run/$loop"
}

# A process with the number of one that was traced, and has just ended.
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
