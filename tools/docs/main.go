// Command docs writes the generated pages of docs/: api.md from the paths of the API, commands.md
// from the commands and settings, detections.md from the rules, metrics.md from the table of
// metrics, operations.md from the catalog, schema.md from the migrations and the virtual tables,
// schema.json and the dashboard's types.ts from the JSON types, and test_matrix.md from the tests. Run it from the repository root.
package main

import (
	"fmt"
	"os"
	"strings"

	"ingero/internal/cli"
)

func main() {
	for _, page := range []struct {
		path string
		make func() (string, error)
	}{
		{"docs/reference/api.md", func() (string, error) { return api(), nil }},
		{"docs/reference/commands.md", commands},
		{"docs/reference/detections.md", func() (string, error) { return detections(), nil }},
		{"deploy/clickhouse/cluster-18.16.sql", func() (string, error) { return tables(false), nil }},
		{"deploy/clickhouse/cluster-modern.sql", func() (string, error) { return tables(true), nil }},
		{"docs/reference/metrics.md", func() (string, error) { return metrics(), nil }},
		{"docs/reference/operations.md", func() (string, error) { return operations(), nil }},
		{"docs/reference/schema.md", func() (string, error) { return schema("internal/store/migrations") }},
		{"docs/reference/schema.json", func() (string, error) { return jsonSchema(".") }},
		{"internal/dashboard/web/src/types.ts", func() (string, error) { return typescript(".") }},
		{"docs/test_matrix.md", func() (string, error) { return testMatrix(".") }},
	} {
		text, err := page.make()
		if err == nil {
			err = os.WriteFile(page.path, []byte(text), 0o644)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "docs: %s: %v\n", page.path, err)
			os.Exit(1)
		}
	}
}

func commands() (string, error) {
	var b strings.Builder
	err := cli.Docs(&b)
	return b.String(), err
}
