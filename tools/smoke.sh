#!/bin/bash
# smoke.sh: tests the built program as a new user would use it.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
cp bin/ingero "$dir"

fail() {
	[ ! -s "$dir/out" ] || cat "$dir/out" "$dir/err"
	echo "smoke: $*" >&2
	exit 1
}

go version -m bin/ingero | grep -q 'CGO_ENABLED=0' || fail "bin/ingero is not static"
bin/ingero version

# demo FIRST_LINE COMMAND...: checks that a demo shows launches, and its first line.
demo() {
	local says=$1
	shift
	echo "smoke: $*"
	timeout 120 "$@" </dev/null >"$dir/out" 2>"$dir/err" || fail "$* did not end well"
	head -4 "$dir/out"
	grep -q cudaLaunchKernel "$dir/out" || fail "$* shows no launch"
	head -1 "$dir/out" | grep -q "^$says" || fail "$* does not begin with $says"
}

if [ "$(id -u)" = 0 ]; then
	demo Live "$dir/ingero" demo train
	demo Recording setpriv --reuid=65534 --regid=65534 --clear-groups "$dir/ingero" demo incident
else
	demo Recording "$dir/ingero" demo incident
fi
