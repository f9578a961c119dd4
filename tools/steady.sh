#!/bin/bash
# steady.sh [KIND...]: checks that the tests pass every time. As root, it runs the tests of this
# commit many times in a clone: alone; with a load on all CPUs and the disk; as an unprivileged
# user, with and without that load; and two runs at the same time beside a running trace. Each run
# is a line of bin/steady.tsv. Runs already recorded for this commit are skipped, so it can be
# interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
results=$PWD/bin/steady.tsv
commit=$(git rev-parse HEAD)
tree=${STEADY_DIR:-/var/tmp/ingero-steady}
mkdir -p bin
touch "$results"

# Number of runs of each kind.
declare -A times=([root]=5 [root-busy]=5 [user]=3 [user-busy]=3 [pair]=1)
kinds=("${@:-root root-busy user user-busy pair}")
read -ra kinds <<<"${kinds[*]}"

for command in stress-ng setpriv; do
	command -v "$command" >/dev/null || { echo "steady: $command is missing: apt-get install stress-ng util-linux" >&2; exit 1; }
done

# clone WHO: clones the commit for this user
clone() {
	local dir=$tree/$1
	if [ "$(git -c safe.directory="$dir/main" -C "$dir/main" rev-parse HEAD 2>/dev/null)" != "$commit" ]; then
		rm -rf "$dir/main"
		mkdir -p "$dir/home" "$dir/tmp"
		git clone -q . "$dir/main"
		git -C "$dir/main" checkout -q "$commit"
		[ "$1" = root ] || chown -R 65534:65534 "$dir"
	fi
}

# tests WHO LOG: runs all tests once, without the cache
tests() {
	local dir=$tree/$1
	clone "$1"
	if [ "$1" = root ]; then
		make -C "$dir/main" test TESTFLAGS=-count=1 >"$2" 2>&1
	else
		setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$dir/home" TMPDIR="$dir/tmp" \
			make -C "$dir/main" test TESTFLAGS=-count=1 >"$2" 2>&1
	fi
}

# noted KIND WHO RUN: runs the tests and writes the run's line
noted() {
	local log began=$SECONDS status=0
	log=bin/steady-$1-$2-$3.log
	tests "$2" "$log" || status=$?
	printf '%s\t%s\t%s\t%d\t%d s\t%s\n' "$commit" "$1" "$2" "$3" $((SECONDS - began)) \
		"$([ "$status" = 0 ] && grep '^DONE' "$log" | tail -1 || echo "FAILED, see $log")" | tee -a "$results"
}

busy() { stress-ng --quiet --cpu 2 --hdd 1 --temp-path "$tree" & load=$!; }
calm() { [ -z "${load-}" ] || { kill "$load" 2>/dev/null; wait "$load" 2>/dev/null || true; load=; }; }
mkdir -p "$tree"
chmod 755 "$tree"
trap calm EXIT

for kind in "${kinds[@]}"; do
	for run in $(seq "${times[$kind]}"); do
		grep -q "^$commit	$kind	[a-z]*	$run	" "$results" && continue
		case $kind in
		*-busy) busy ;;
		esac
		case $kind in
		pair)
			make -C . build >/dev/null
			bin/ingero trace --record=false >/dev/null 2>&1 &
			load=$!
			noted pair user "$run" &
			user=$!
			noted pair root "$run"
			wait "$user"
			;;
		*) noted "$kind" "${kind%-busy}" "$run" ;;
		esac
		calm
	done
done
echo
awk -F'\t' -v c="$commit" '$1 == c { n[$2]++; if ($6 !~ /^FAILED/) ok[$2]++ } END { for (k in n) print k ": " ok[k] + 0 " of " n[k] " passed" }' "$results"
! grep "^$commit" "$results" | grep -q FAILED
