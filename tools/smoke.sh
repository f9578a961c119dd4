#!/bin/bash
# smoke.sh: the built program as a user meets it first.
set -euo pipefail
cd "$(dirname "$0")/.."

file=$(mktemp)
trap 'rm -f "$file"' EXIT
go version -m bin/ingero | grep -q 'CGO_ENABLED=0' || { echo "smoke: bin/ingero is not static" >&2; exit 1; }
bin/ingero version

# With probes where this machine lets it, else from the recording; both must show
# a training loop's launches.
for how in "" --no-gpu; do
	echo "smoke: demo $how"
	# shellcheck disable=SC2086
	timeout 120 bin/ingero demo $how </dev/null >"$file" 2>&1 || { cat "$file"; echo "smoke: demo $how did not end well" >&2; exit 1; }
	grep -q cudaLaunchKernel "$file" || { cat "$file"; echo "smoke: demo $how shows no launch" >&2; exit 1; }
	head -5 "$file"
done
