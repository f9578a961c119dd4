#!/bin/bash
# jaeger.sh: builds Jaeger, which is also an OpenTelemetry collector, from its Go module into
# bin/jaeger/jaeger, for tests with a real receiver. The first build takes two minutes; the result
# is kept. It is not optimized, because that would take longer than the tests. It has only the API,
# no web pages, and lacks unused parts that are slow to compile: Kafka, Zipkin, AWS, Elasticsearch.
set -euo pipefail
cd "$(dirname "$0")/.."

# without_parts SOURCE: removes these parts from the copy
without_parts() {
	sed -E -i '/kafka|sigv4auth|zipkin|spanmetrics|jaegerreceiver|prometheusexporter|tailsampling/d' \
		"$1/cmd/jaeger/internal/components.go"
	local client=$1/bin/elasticsearch
	mkdir -p "$client/esapi"
	cat >"$client/go.mod" <<-'MOD'
		module github.com/elastic/go-elasticsearch/v9
		go 1.23
	MOD
	cat >"$client/client.go" <<-'GO'
		package elasticsearch

		import (
			"errors"
			"net/http"

			"github.com/elastic/go-elasticsearch/v9/esapi"
		)

		type Config struct {
			Addresses                                 []string
			Username, Password                        string
			DiscoverNodesOnStart, CompressRequestBody bool
			Header                                    http.Header
			Transport                                 http.RoundTripper
		}

		type Client struct{ Indices *esapi.Indices }

		func NewClient(Config) (*Client, error) { return nil, errors.ErrUnsupported }
	GO
	cat >"$client/esapi/indices.go" <<-'GO'
		package esapi

		import (
			"errors"
			"io"
			"net/http"
		)

		type Indices struct{}

		func (*Indices) PutIndexTemplate(string, io.Reader) (*http.Response, error) {
			return nil, errors.ErrUnsupported
		}
	GO
	(cd "$1" && go mod edit -replace "github.com/elastic/go-elasticsearch/v9=$client")
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
