#!/bin/bash
# mutate.sh [WORD...]: shows that the tests notice mistakes. Each patch of test/mutate makes
# one mistake in a copy of the tree; the tests of the packages that its first lines name
# must fail. With words, only patches whose names contain one of them are tried.
#
# A patch begins with lines "# mistake: WHAT IS WRONG" and "# packages: ./a ./b". If it
# changes C of bpf/, the programs are compiled again.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
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
	wanted "$patch" || continue
	name=$(basename "$patch" .patch)
	read -ra packages < <(sed -n 's/^# packages: //p' "$patch")
	[ "${#packages[@]}" -gt 0 ] || { echo "mutate: $patch names no packages" >&2; exit 1; }
	git -C "$copy" apply --whitespace=nowarn "$PWD/$patch"
	log=$copy.$name.log
	if (
		cd "$copy"
		git diff --quiet -- bpf || go generate ./internal/bpf
		go vet "${packages[@]}" && touch "$log.built"
		CI=true go test -count=1 -timeout 10m "${packages[@]}"
	) >"$log" 2>&1; then
		missed+=("$name")
		echo "MISSED  $name: $(sed -n 's/^# mistake: //p' "$patch")"
	elif [ ! -e "$log.built" ]; then
		cat "$log" >&2
		echo "mutate: $name does not build" >&2
		exit 1
	else
		echo "caught  $name: $(sed -n 's/^ *--- FAIL: \([^ ]*\).*/\1/p' "$log" | head -3 | paste -sd' ')"
	fi
	rm -f "$log" "$log.built"
	tried=$((tried + 1))
	git -C "$copy" checkout -q .
	git -C "$copy" clean -fdq
done
echo "mutate: $tried mistakes, ${#missed[@]} missed"
[ "$tried" -gt 0 ] && [ "${#missed[@]}" = 0 ]
