#!/bin/bash
# repeat.sh: runs some of the tests that make test has just run three more times, to find flaky
# ones. The commit selects them, so that over many commits all tests get their turn.
# SECONDS_TO_REPEAT bounds the sum of their times in make test.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_TO_REPEAT:-12}
times=bin/test.json # written by make test

if [ ! -s "$times" ]; then
	echo "repeat: $times is absent: run make test first" >&2
	exit 1
fi
commit=$(git rev-parse HEAD)

# Lines "PACKAGE TEST SECONDS" of the tests that passed. A test's time is that of its subtests if
# that is more, since its own time excludes parallel subtests.
durations() {
	sed -n 's/.*"Action":"pass","Package":"\([^"]*\)","Test":"\([^"]*\)","Elapsed":\([0-9.]*\).*/\1\t\2\t\3/p' "$times" |
		awk -F'\t' '
			{ took[$1, $2] = $3; parent = $2; if (sub("/[^/]*$", "", parent)) whole[$1, parent] }
			END {
				for (key in took) {
					split(key, part, SUBSEP); test = part[2]; sub("/.*", "", test); root = part[1] " " test
					if (!(key in whole)) parts[root] += took[key]
					if (test == part[2]) own[root] = took[key]
				}
				for (root in own) print root " " (parts[root] > own[root] ? parts[root] : own[root])
			}'
}

# Takes packages, and tests within each, in an order that depends on the commit, while there is
# time. It takes few packages with many tests, because linking takes most of the time.
chosen=$(durations | while read -r package test took; do
	echo "$(echo "$commit $package" | sha256sum | cut -c1-12) $(echo "$commit $test" | sha256sum | cut -c1-12) $package $test $took"
done | sort | awk -v left="$seconds" -v most=8 '
	!($3 in seen) { if (n == most) next; seen[$3]; n++ }
	$5 <= left { left -= $5; print $3, $4 }')
if [ -z "$chosen" ]; then
	echo "repeat: no test takes less than $seconds s" >&2
	exit 1
fi

repeat() {
	echo "repeat: $1: $(tr '|' '\n' <<<"$2" | wc -l) tests"
	go test -vet=off -ldflags=-w -count=3 -timeout 5m -run "^($2)\$" "$1"
}
export -f repeat

# Lines "PACKAGE TESTS"; as many packages at a time as there are CPUs.
awk '{ tests[$1] = tests[$1] (tests[$1] ? "|" : "") $2 } END { for (p in tests) print p, tests[p] }' <<<"$chosen" |
	xargs -P "$(nproc)" -L 1 bash -c 'repeat "$@"' repeat
