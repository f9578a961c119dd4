#!/bin/bash
# bundle.sh DIR: creates a directory with everything that make test-gpu needs, for a machine with a
# GPU and without Go.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$1
export CGO_ENABLED=0

rm -rf "$dir"
mkdir -p "$dir/tests/test"
cp bin/ingero tools/testgpu/*.py "$dir"
go build -trimpath -ldflags '-s -w' -o "$dir/testgpu" ./tools/testgpu
# Only tests that use the kernel, the driver or the libraries; others need no GPU machine.
cp go.mod "$dir/tests"
cp test/*.txt "$dir/tests/test"
for pkg in gpu proc probes session; do
	to=$dir/tests/internal/$pkg
	mkdir -p "$to"
	go test -c -trimpath -ldflags '-s -w' -o "$to/test" "./internal/$pkg"
	[ ! -d "internal/$pkg/testdata" ] || cp -r "internal/$pkg/testdata" "$to"
done
cat >"$dir/run.sh" <<'END'
#!/bin/sh
# Runs the tests on this machine's GPU; report.json is the result. --sim: without one.
cd "$(dirname "$0")" && exec ./testgpu -o report.json "$@"
END
chmod +x "$dir/run.sh"
du -sh "$dir"
