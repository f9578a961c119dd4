#!/bin/bash
# Fuzzes the parsers of untrusted bytes: each target for FUZZTIME (10m, or 1000x executions), two at
# a time. A failing input is written to the package's testdata/fuzz, where it becomes a test: commit
# it with the fix. A number of executions is for a short run: it is not guided by coverage, since
# compiling every package again for that takes longer than the run.
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
		function-names internal/symbols FuzzFind
		dwarf internal/native/image FuzzFind
		eh_frame internal/unwind FuzzOpen
		line-tables internal/python FuzzLines
		cpython-structures internal/python FuzzDWARF
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

# fuzz PACKAGE TARGET
fuzz() {
	case $FUZZTIME in
	*x)
		go test -c -ldflags=-w -o "$built/$2" "./$1" && cd "$1" &&
			"$built/$2" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 100x -test.parallel 1 -test.fuzzcachedir "$built/inputs"
		;;
	*) go test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -fuzzminimizetime 100x -parallel 1 ;;
	esac
}

one() {
	local log
	log=$(mktemp)
	if ! (fuzz "$2" "$3") >"$log" 2>&1 && ! only_deadline "$log"; then
		sed "s/^/$1: /" "$log"
		rm -f "$log"
		return 1
	fi
	echo "$1: $(grep -o 'execs: [0-9]*' "$log" | tail -1), no crash"
	rm -f "$log"
}
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
export -f one fuzz only_deadline
export FUZZTIME built

targets | xargs -P 2 -L 1 bash -c 'one "$@"' fuzz
