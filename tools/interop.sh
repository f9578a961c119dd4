#!/bin/bash
# interop.sh fetch|tests|packages: the parts of make test-interop. Tests with real servers,
# browsers, emulators and packaging tools are in files *_interop_test.go, with the build tag
# interop. fetch downloads and builds what apt lacks; tests prints a pattern that matches these
# tests, and packages prints their packages.
set -euo pipefail
cd "$(dirname "$0")/.."

files() { git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^//go:build interop$'; }

case ${1-} in
fetch)
	mkdir -p bin
	exec 9>bin/fetch.lock
	flock 9 # one run at a time
	echo "interop: fetching NVIDIA's libraries, what drives the browser, and Jaeger (its build takes minutes, once)"
	tools/nvidia-libs.sh >/dev/null
	tools/browser.sh >/dev/null
	tools/jaeger.sh
	# What the tests of packages and manifests run is compiled.
	go run "$(sed -n 's/^nfpm=//p' tools/package.sh)" --version >/dev/null
	sed -n 's/^\t[a-z]* *= "\(.*@v.*\)"$/\1/p' test/packages/manifests_interop_test.go | while read -r tool; do
		go run -gcflags='all=-N -l' "$tool" --help </dev/null >/dev/null
	done
	;;
tests)
	files | xargs grep -ho '^func Test[A-Z0-9][A-Za-z0-9_]*(t \*testing.T)' | sed 's/^func \(.*\)(t.*/\1/' | sort -u | paste -sd'|' | sed 's/.*/^(&)$/'
	;;
packages)
	# That of the emulated kernels takes longest, so it starts first.
	{ echo test/guests; files | xargs -n1 dirname | sort -u; } | awk '!seen[$0]++ { print "./" $0 }'
	;;
*)
	echo "usage: tools/interop.sh fetch|tests|packages" >&2
	exit 2
	;;
esac
