#!/bin/bash
# Fuzzes what reads bytes of others: each target for FUZZTIME (10m, or 1000x executions), two at
# a time.
# An input that fails is written to the package's testdata/fuzz, where it is a test from
# then on: commit it with the mend.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${FUZZTIME:=10m}"

# What it reads, package, target.
targets() {
	cat <<-'TABLE'
		kernel-records internal/decode FuzzRecord
		segments internal/store FuzzSealed
		logs internal/store FuzzLog
		elf internal/proc FuzzFindSymbols
		dwarf internal/native/image FuzzFind
		eh_frame internal/unwind FuzzOpen
		line-tables internal/python FuzzLines
		config internal/config FuzzFile
		sql-guard internal/query FuzzSQL
		mcp internal/mcp FuzzRequest
		otlp-replies internal/export/otlp FuzzAnswer
		kernel-log internal/xid FuzzParse
	TABLE
}

# Until Go 1.27 the fuzzer now and then says of its own deadline that it failed
# (go.dev/issue/75804): no input failed where that is all that it says.
only_deadline() {
	[ "$(sed -n '/^--- FAIL: /,$p' "$1" | sed -n '2,3p')" = $'    context deadline exceeded\nFAIL' ]
}

one() {
	local log
	log=$(mktemp)
	if ! go test "./$2" -run '^$' -fuzz "^$3\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 100x -parallel 1 >"$log" 2>&1 && ! only_deadline "$log"; then
		sed "s/^/$1: /" "$log"
		rm -f "$log"
		return 1
	fi
	echo "$1: $(grep -o 'execs: [0-9]*' "$log" | tail -1), no crash"
	rm -f "$log"
}
export -f one only_deadline
export FUZZTIME

targets | xargs -P 2 -L 1 bash -c 'one "$@"' fuzz
