#!/bin/bash
# pictures.sh: makes the pictures of docs/images anew. It traces a training loop on the simulated GPU
# while other programs take its CPU, as root. Needs chromium, node, npm and script.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/browser.sh >/dev/null
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$dir"' EXIT
arch=$(go env GOARCH)
export LD_LIBRARY_PATH=$PWD/sim/prebuilt/$arch HOME=$dir

# group NAME: moves this shell into a control group, whose name the pictures show
group() {
	local g=/sys/fs/cgroup
	[ -e $g/cgroup.procs ] || g+=/memory # version 1
	mkdir -p "$g/$1.slice" && echo "$BASHPID" >"$g/$1.slice/cgroup.procs"
}
group training

# The loop waits for a line, and then runs for 12 s. From the 4th second to the 8th, gzip uses its CPU.
mkfifo "$dir/go"
"sim/prebuilt/$arch/train" --seconds 12 --launches 4 --kernel-us 300 --pin 1 --hold <>"$dir/go" >"$dir/train" &
job=$!
(sleep 2; echo go >"$dir/go"; sleep 4; group backup; timeout 4 taskset -c 1 gzip -9 </dev/zero >/dev/null) &
tail -f /dev/null --pid $job | # a terminal on which nobody types
	script -qefc "stty rows 34 cols 104; bin/ingero trace --pid $job --db $dir/x.db" "$dir/session" >/dev/null

bin/ingero dashboard --db "$dir/x.db" --addr 127.0.0.1:18080 --no-tls >"$dir/out" 2>&1 &
curl -s --retry 20 --retry-connrefused --retry-delay 1 -o /dev/null http://127.0.0.1:18080/
node test/browser/pictures.mjs "$PWD/bin/browser" "$(command -v chromium)" http://127.0.0.1:18080/ "$dir/session" "$dir"
mkdir -p docs/images
mv "$dir"/*.png docs/images/
ls -l docs/images
