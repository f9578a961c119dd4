#!/bin/bash
# Fuzzes the parsers of untrusted bytes: each target for FUZZTIME (10m, or 1000x executions), two at
# a time. A failing input is written to the package's testdata/fuzz, where it becomes a test: commit
# it with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${FUZZTIME:=10m}"

# Lines of: what the target reads, package, target.
targets() {
	cat <<-'TABLE'
		kernel-records internal/decode FuzzRecord
		segments internal/store/segment FuzzSealed
		logs internal/store/segment FuzzLog
		elf internal/elffile FuzzOpen
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

# Before Go 1.27 the fuzzer sometimes reports its own deadline as a failure (go.dev/issue/75804). If
# that is the only report, no input failed.
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
