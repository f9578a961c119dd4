#!/bin/bash
# flake.sh: runs the tests of some packages COUNT times under the race detector. FLAKE_PKGS names
# the packages; by default they are those changed since the main branch on the server, or since the
# last commit. The soak is excluded: it is one long run that bounds the agent's memory, and the race
# detector multiplies memory use.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${COUNT:-100}
pkgs=${FLAKE_PKGS:-}
if [ -z "$pkgs" ]; then
	base=$(git merge-base HEAD origin/main 2>/dev/null || true)
	if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
		base=$(git rev-parse -q --verify HEAD~1 || git rev-parse HEAD)
	fi
	pkgs=$({ git diff --name-only "$base"; git ls-files -o --exclude-standard; } |
		grep '\.go$' | { grep -v '^test/soak/' || true; } | xargs -r -n1 dirname | sort -u | while read -r dir; do
		compgen -G "$dir/*_test.go" >/dev/null && echo "./$dir"
	done) || true
fi
if [ -z "$pkgs" ]; then
	echo "flake: no package with tests has changed"
	exit 0
fi
echo "flake: $count times: ${pkgs//$'\n'/ }"
# shellcheck disable=SC2086
CGO_ENABLED=1 go test -race -count="$count" -timeout 60m $pkgs
