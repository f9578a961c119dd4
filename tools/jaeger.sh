#!/bin/bash
# jaeger.sh: builds Jaeger, which is also an OpenTelemetry collector, from its Go module into
# bin/jaeger/jaeger, for tests with a real receiver. The first build takes a minute; the result is
# kept. It is not optimized, because that would take longer than the tests. It has only the API, no
# web pages, keeps spans in memory, and lacks the components that no test uses.
set -euo pipefail
cd "$(dirname "$0")/.."

# without_parts SOURCE: removes from the copy the components that no test uses, and all stores but
# that in memory. They are half of the code to compile.
without_parts() {
	local jaeger=$1/cmd/jaeger store=$1/cmd/jaeger/internal/extension/jaegerstorage factory=$1/internal/storage/v1/factory
	sed -E -i '/kafka|zipkin|jaegerreceiver|spanmetrics|prometheusexporter|sigv4auth|basicauth|healthcheckv2|pprof|zpages/d
		/tailsampling|adaptivesampling|remotesampling|attributesproc|filterproc|storagecleaner|remotestorage/d' "$jaeger/internal/components.go"
	sed -i '/mappings/d' "$jaeger/main.go"
	cat >"$store/config.go" <<-'GO'
		package jaegerstorage

		import "github.com/jaegertracing/jaeger/internal/storage/v1/memory"

		type Config struct {
			TraceBackends map[string]TraceBackend `mapstructure:"backends"`
		}

		type TraceBackend struct {
			Memory *memory.Configuration `mapstructure:"memory"`
		}
	GO
	sed -E -i '/extensionauth"|elasticsearch|storage\/v2\/(badger|cassandra|clickhouse|grpc)|metricstore\/prometheus/d
		/case cfg.Badger != nil:/,/^\t\tdefault:/{/^\t\tdefault:/!d}
		/range s.config.MetricBackends/,/^\t}$/d
		/^\/\/ getAuthenticator/,$d' "$store/extension.go"
	rm "$factory"/*.go
	cat >"$factory/factory.go" <<-'GO'
		package storage

		import "github.com/jaegertracing/jaeger/internal/storage/v1/api/spanstore"

		type ArchiveStorage struct {
			Reader spanstore.Reader
			Writer spanstore.Writer
		}
	GO
}

version=v1.76.0 # its cmd/jaeger is Jaeger 2
to=$PWD/bin/jaeger
if [ ! -x "$to/jaeger" ] || [ "$(cat "$to/version" 2>/dev/null)" != "$version" ]; then
	rm -rf "$to"
	mkdir -p "$to"
	from=$(go mod download -json "github.com/jaegertracing/jaeger@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	# Built in a copy, with the module's go.sum, since the module directory is read-only. The dot hides the
	# copy from ./... of this module while it has no go.mod yet.
	cp -r "$from/." "$to/.source"
	chmod -R u+w "$to/.source"
	without_parts "$to/.source"
	(cd "$to/.source" && GOWORK=off GOFLAGS="${GOFLAGS-} -mod=mod" CGO_ENABLED=0 nice go build -trimpath -gcflags 'all=-N -l' -ldflags '-s -w' -o "$to/jaeger" ./cmd/jaeger)
	rm -rf "$to/.source"
	echo "$version" >"$to/version"
fi
ls -l "$to/jaeger"
