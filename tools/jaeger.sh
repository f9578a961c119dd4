#!/bin/bash
# jaeger.sh: builds Jaeger, which is an OpenTelemetry collector too, from its Go module
# into bin/jaeger/jaeger, for tests that send to a real receiver. It takes some minutes,
# once: what is there is kept. It has no pages for people, only its API.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v1.76.0 # cmd/jaeger of it is Jaeger 2
to=$PWD/bin/jaeger
if [ ! -x "$to/jaeger" ] || [ "$(cat "$to/version" 2>/dev/null)" != "$version" ]; then
	rm -rf "$to"
	mkdir -p "$to"
	from=$(go mod download -json "github.com/jaegertracing/jaeger@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	# It is built with the versions that its own go.sum has, in a copy, for the module is read-only.
	cp -r "$from/." "$to/source"
	chmod -R u+w "$to/source"
	(cd "$to/source" && GOWORK=off GOFLAGS="${GOFLAGS-} -mod=mod" CGO_ENABLED=0 nice go build -trimpath -ldflags '-s -w' -o "$to/jaeger" ./cmd/jaeger)
	rm -rf "$to/source"
	echo "$version" >"$to/version"
fi
ls -l "$to/jaeger"
