#!/bin/bash
# mutate.sh [WORD...]: checks that the tests detect mistakes. Each patch of test/mutate makes one
# mistake in a copy of the tree; the tests of the packages in its first lines must fail. With words,
# only patches whose names contain one of them are tried.
#
# A patch begins with lines "# mistake: WHAT IS WRONG" and "# packages: ./a ./b". A line "# tests:
# REGEXP" limits the run to those tests, as go test -run does. If a patch changes C files of bpf/,
# the BPF programs are compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy" "$copy".*.log' EXIT
git ls-files -coz --exclude-standard | while IFS= read -rd '' f; do
	[ ! -e "$f" ] || printf '%s\0' "$f"
done | tar -c --null -T - | tar -x -C "$copy"
git -C "$copy" init -q
git -C "$copy" add -A
git -C "$copy" -c user.name=mutate -c user.email=mutate@localhost commit -qm tree

wanted() {
	local word
	[ "${#words[@]}" -gt 0 ] || return 0
	for word in "${words[@]}"; do
		[[ $1 != *"$word"* ]] || return 0
	done
	return 1
}

words=("$@")
tried=0
missed=()
for patch in test/mutate/*.patch; do
	name=$(basename "$patch" .patch)
	wanted "$name" || continue
	mistake=$(sed -n 's/^# mistake: //p' "$patch")
	tests=$(sed -n 's/^# tests: //p' "$patch")
	read -ra packages <<<"$(sed -n 's/^# packages: //p' "$patch")"
	if [ -z "$mistake" ] || [ "${#packages[@]}" = 0 ]; then
		echo "mutate: $patch has no mistake or no packages" >&2
		exit 1
	fi
	git -C "$copy" apply --whitespace=nowarn "$PWD/$patch"
	log=$copy.$name.log
	began=$SECONDS
	# -trimpath lets the copies share compiled packages.
	if (
		cd "$copy"
		git diff --quiet -- bpf || go generate ./internal/bpf || { echo '[build failed]'; exit 1; }
		CI=true go test -trimpath -count=1 -failfast -timeout 10m ${tests:+-run "$tests"} "${packages[@]}"
	) >"$log" 2>&1; then
		missed+=("$name")
		echo "MISSED  $name ($((SECONDS - began)) s): $mistake"
	elif grep -qE '\[(build|setup) failed\]' "$log"; then
		cat "$log" >&2
		echo "mutate: $name does not build" >&2
		exit 1
	else
		caught=$(sed -n 's/^ *--- FAIL: \([^ ]*\).*/\1/p' "$log" | head -3 | paste -sd' ')
		[ -n "$caught" ] || { cat "$log" >&2; echo "mutate: $name: no test says what is wrong" >&2; exit 1; }
		echo "caught  $name ($((SECONDS - began)) s): $caught"
	fi
	tried=$((tried + 1))
	git -C "$copy" checkout -q .
	git -C "$copy" clean -fdq
done
echo "mutate: $tried mistakes, ${#missed[@]} missed"
[ "$tried" -gt 0 ] && [ "${#missed[@]}" = 0 ]
