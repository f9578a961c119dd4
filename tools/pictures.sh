#!/bin/bash
# pictures.sh: makes the pictures of docs/images anew. It traces a training loop on the simulated GPU
# while other programs take its CPU, as root. Needs chromium, node, npm and script.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/browser.sh >/dev/null
dir=$(mktemp -d)
arch=$(go env GOARCH)
export LD_LIBRARY_PATH=$PWD/sim/prebuilt/$arch HOME=$dir

groups=/sys/fs/cgroup
[ -e $groups/cgroup.procs ] || groups+=/memory # version 1
finish() {
	jobs -p | xargs -r kill 2>/dev/null || true
	wait
	echo $$ >$groups/cgroup.procs
	rmdir $groups/training.slice $groups/backup.slice || true
	rm -rf "$dir"
}
trap finish EXIT

# group NAME: moves this shell into a control group, whose name the pictures show
group() {
	mkdir -p "$groups/$1.slice" && echo "$BASHPID" >"$groups/$1.slice/cgroup.procs"
}
group training

# The loop waits for a line, and then runs for 12 s. From the 4th second to the 8th, gzip uses its CPU.
mkfifo "$dir/go"
"sim/prebuilt/$arch/train" --seconds 12 --launches 4 --kernel-us 300 --pin 1 --hold <>"$dir/go" >"$dir/train" &
job=$!
(sleep 2; echo go >"$dir/go"; sleep 4; group backup; timeout 4 taskset -c 1 gzip -9 </dev/zero >/dev/null) &
tail -f /dev/null --pid $job | # a terminal without keyboard input
	script -qefc "stty rows 34 cols 104; bin/ingero trace --pid $job --db $dir/x.db" "$dir/session" >/dev/null

bin/ingero dashboard --db "$dir/x.db" --addr 127.0.0.1:0 --no-tls >"$dir/out" 2>&1 &
until url=$(grep -om1 'http://127[^ ]*' "$dir/out"); do sleep 0.1; done
node test/browser/pictures.mjs "$PWD/bin/browser" "$(command -v chromium)" "$url" "$dir/session" "$dir"
large=$(find "$dir" -name '*.png' -size +200k -printf '%f %s bytes ')
[ -z "$large" ] || { echo "pictures: more than 200 KB: $large(run it on an idle machine)" >&2; exit 1; }
mkdir -p docs/images
mv "$dir"/*.png docs/images/
ls -l docs/images
