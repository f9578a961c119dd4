#!/bin/bash
# verify.sh: regenerates all generated files in a copy of the tree, and fails with the names of the
# files that differ from the committed ones. It does not change the tree.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

git ls-files -coz --exclude-standard | while IFS= read -rd '' f; do
	[ ! -e "$f" ] || printf '%s\0' "$f"
done | tar -c --null -T - | tar -x -C "$copy"
cp -r "$copy" "$copy.was"
trap 'rm -rf "$copy" "$copy.was"' EXIT

make -C "$copy" --no-print-directory generate >/dev/null
if ! diff -rq "$copy.was" "$copy" >"$copy.diff"; then
	sed "s#$copy.was#checked in#g; s#$copy#generated#g" "$copy.diff" >&2
	diff -r -x '*.o' -x prebuilt "$copy.was/docs" "$copy/docs" | grep "^[<>]" | head -12 >&2 || true
	rm -f "$copy.diff"
	echo "verify: what is generated differs from what is checked in: run make generate and commit it" >&2
	exit 1
fi
rm -f "$copy.diff"
echo "verify: generated files are up to date"
