// Package internal_test draws the arrows between packages.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed lists, for every package, what it may import beside the standard
// library: packages of this module without its name, and other modules by the
// start of their path. An arrow that is not here is not meant to be.
var allowed = map[string]string{
	"pkg/events": "",

	// Kernel side, and what reads it.
	"internal/bpf":       "github.com/cilium/ebpf",
	"internal/probes":    "github.com/cilium/ebpf golang.org/x/arch golang.org/x/sys internal/bpf internal/elffile internal/proc internal/python internal/tick internal/unwind pkg/events sim",
	"internal/decode":    "golang.org/x/sys internal/bpf internal/clock internal/tick pkg/events",
	"internal/clock":     "golang.org/x/sys",
	"internal/elffile":   "github.com/klauspost/compress",
	"internal/proc":      "golang.org/x/sys internal/elffile internal/tick pkg/events",
	"internal/host":      "golang.org/x/sys internal/tick",
	"internal/unwind":    "golang.org/x/sys internal/elffile internal/proc",
	"internal/jail":      "golang.org/x/sys",
	"internal/screen":    "golang.org/x/sys",
	"internal/python":    "internal/elffile internal/jail internal/proc pkg/events",
	"internal/gpu":       "internal/tick",
	"internal/xid":       "golang.org/x/sys internal/tick",
	"internal/lock":      "golang.org/x/sys internal/wire",
	"internal/listen":    "",
	"internal/privilege": "golang.org/x/sys",
	"internal/service":   "golang.org/x/sys",
	"internal/label":     "golang.org/x/sys internal/tick",
	"internal/update":    "",

	// The pipeline.
	"internal/stats":         "",
	"internal/tick":          "internal/stats pkg/events",
	"internal/where":         "internal/tick",
	"internal/tape":          "github.com/klauspost/compress",
	"internal/metric":        "internal/causal internal/govern internal/stats internal/tick internal/where pkg/events",
	"internal/backoff":       "",
	"internal/redact":        "",
	"internal/inference":     "github.com/prometheus/client_model github.com/prometheus/common golang.org/x/sys internal/backoff internal/redact internal/tick internal/where",
	"internal/k8s":           "internal/backoff internal/tick",
	"internal/ledger":        "internal/stats internal/tick pkg/events",
	"internal/causal":        "internal/govern internal/ledger internal/stats internal/tick internal/xid pkg/events",
	"internal/episode":       "internal/tick",
	"internal/mute":          "internal/causal internal/tick",
	"internal/serve":         "internal/govern internal/ledger internal/tick internal/where pkg/events",
	"internal/loop":          "internal/ledger internal/stats internal/tick pkg/events",
	"internal/govern":        "",
	"internal/native":        "internal/elffile internal/native/image internal/proc internal/symbols pkg/events",
	"internal/native/image":  "github.com/mikelolasagasti/xz internal/elffile",
	"internal/symbols":       "github.com/ianlancetaylor/demangle internal/elffile internal/tick pkg/events",
	"internal/track":         "internal/tick pkg/events",
	"internal/rollcall":      "internal/tick internal/track pkg/events",
	"internal/session":       "golang.org/x/sys internal/causal internal/decode internal/elffile internal/episode internal/gpu internal/govern internal/host internal/label internal/ledger internal/loop internal/native internal/probes internal/proc internal/python internal/redact internal/rollcall internal/serve internal/stats internal/symbols internal/tape internal/tick internal/track internal/unwind internal/where internal/xid pkg/events",
	"internal/store/log":     "golang.org/x/sys",
	"internal/store/segment": "github.com/klauspost/compress internal/stats internal/store/log internal/tick internal/wire pkg/events",

	// The store, above its files.
	"internal/store/retention": "golang.org/x/sys internal/stats internal/store/log internal/store/segment",
	"internal/store":           "golang.org/x/sys modernc.org/sqlite internal/stats internal/tick internal/track internal/xid pkg/events internal/store/log internal/store/retention internal/store/segment",
	"internal/store/maintain":  "golang.org/x/sys internal/store internal/store/log internal/store/retention internal/store/segment internal/wire",

	// What reads what was recorded, and says it.
	"internal/export/otlp":       "go.opentelemetry.io/proto/slim/otlp golang.org/x/sys google.golang.org/protobuf internal/backoff internal/explain internal/metric internal/symbols internal/tick pkg/events",
	"internal/export/notify":     "internal/backoff internal/tick",
	"internal/export/clickhouse": "github.com/klauspost/compress internal/backoff internal/export internal/query internal/stats internal/tick pkg/events",
	"internal/query":             "modernc.org/sqlite internal/clock internal/stats internal/store internal/store/log internal/store/maintain internal/store/segment internal/symbols internal/tick internal/track internal/wire pkg/events",
	"internal/diff":              "internal/query internal/stats internal/tick internal/where pkg/events",
	"internal/explain":           "internal/diff internal/query internal/stats internal/symbols internal/tick internal/where internal/wire internal/xid pkg/events",
	"internal/export":            "github.com/parquet-go/parquet-go internal/query internal/symbols internal/tick pkg/events",
	"internal/legacy":            "internal/stats internal/store internal/store/segment internal/tick internal/where pkg/events",
	"internal/outfile":           "golang.org/x/sys",

	// What serves it, and what asks several machines.
	"internal/export/prom":   "github.com/prometheus/client_golang github.com/prometheus/client_model google.golang.org/protobuf internal/listen internal/metric",
	"internal/guard":         "internal/wire",
	"internal/wire":          "internal/tick",
	"internal/dashboard":     "internal/config internal/dashboard/web internal/explain internal/guard internal/query internal/stats internal/store internal/symbols internal/tick internal/where internal/wire internal/xid pkg/events",
	"internal/dashboard/web": "",
	"internal/mcp":           "github.com/google/jsonschema-go github.com/modelcontextprotocol/go-sdk internal/explain internal/query internal/wire",
	"internal/fleet":         "internal/guard internal/query internal/stats internal/tick internal/wire pkg/events",

	// What people start.
	"internal/config": "internal/causal internal/listen internal/redact github.com/spf13/cobra github.com/spf13/pflag go.yaml.in/yaml/v3 golang.org/x/sys",
	"internal/cli/check": "golang.org/x/sys internal/config internal/elffile internal/gpu internal/lock internal/privilege internal/probes internal/proc " +
		"internal/redact internal/tick internal/where internal/wire internal/xid pkg/events",
	"internal/cli": "github.com/spf13/cobra github.com/spf13/pflag golang.org/x/sys golang.org/x/term " +
		"internal/cli/check internal/config internal/dashboard internal/diff internal/explain internal/export internal/export/notify internal/export/clickhouse internal/export/otlp internal/export/prom internal/fleet internal/gpu internal/guard internal/inference internal/k8s internal/label internal/legacy internal/listen internal/lock internal/mcp internal/metric internal/outfile internal/privilege " +
		"internal/probes internal/proc internal/query internal/redact internal/screen internal/service internal/session internal/mute internal/stats internal/store internal/store/log internal/store/maintain internal/store/segment internal/symbols internal/tick internal/update internal/where internal/wire internal/xid pkg/events sim",
	"cmd/ingero": "internal/cli internal/jail internal/screen",

	"sim": "golang.org/x/sys",

	// Tests, benchmarks and tools.
	"internal/store/storetest": "github.com/google/go-cmp internal/stats internal/testkit internal/tick internal/track pkg/events",
	"internal/testkit":         "github.com/cilium/ebpf github.com/google/go-cmp go.uber.org/goleak golang.org/x/sys pkg/events",
	"test/guests":              "internal/testkit",
	"test/incidents":           "github.com/cilium/ebpf golang.org/x/sys internal/config internal/gpu internal/probes internal/proc internal/query internal/session internal/store internal/testkit internal/tick pkg/events sim",
	"test/ledger":              "",
	"test/tapes": "github.com/klauspost/compress github.com/modelcontextprotocol/go-sdk github.com/pkoukk/tiktoken-go " +
		"github.com/pkoukk/tiktoken-go-loader internal/cli internal/query internal/session internal/store internal/store/segment internal/testkit internal/tick pkg/events",
	"test/scores":       "",
	"test/serving":      "internal/testkit sim",
	"test/soak":         "golang.org/x/sys internal/cli internal/jail internal/lock internal/query internal/screen internal/testkit pkg/events sim",
	"test/real":         "golang.org/x/sys internal/cli internal/jail internal/lock internal/query internal/screen internal/testkit pkg/events sim",
	"test/packages":     "go.yaml.in/yaml/v3 golang.org/x/sys internal/testkit sim",
	"test/unwind":       "",
	"test/tapes/raw":    "",
	"test/guests/guest": "golang.org/x/sys internal/decode internal/probes internal/proc internal/session internal/tick internal/xid pkg/events sim",
	"benchmarks/budget": "benchmarks/figure sim",
	"benchmarks/figure": "",
	"benchmarks/idle":   "benchmarks/figure",
	"benchmarks/overhead": "benchmarks/figure github.com/cilium/ebpf golang.org/x/sys internal/probes internal/proc internal/python internal/session " +
		"internal/stats internal/tick internal/unwind pkg/events sim",
	"benchmarks/requests": "benchmarks/figure sim",
	"benchmarks/scale":    "benchmarks/figure internal/query sim",
	"benchmarks/shapes":   "benchmarks/figure sim",
	"benchmarks/stacks":   "benchmarks/figure internal/probes internal/proc internal/session internal/tick pkg/events sim",
	"benchmarks/store": "benchmarks/figure golang.org/x/sys modernc.org/sqlite internal/proc internal/query internal/session internal/stats internal/store internal/store/log internal/store/segment " +
		"internal/tick pkg/events sim",
	"benchmarks/switches": "benchmarks/figure github.com/cilium/ebpf golang.org/x/sys internal/probes internal/proc internal/session " +
		"internal/tick sim",
	"benchmarks/throughput": "benchmarks/figure golang.org/x/sys internal/decode internal/export/clickhouse internal/export/otlp internal/export/prom internal/listen internal/metric internal/probes internal/proc internal/query internal/session " +
		"internal/stats internal/store internal/tick pkg/events sim",
	"tools/btfcheck":    "github.com/cilium/ebpf internal/bpf",
	"tools/docs":        "github.com/google/jsonschema-go internal/causal internal/cli internal/dashboard internal/explain internal/export/clickhouse internal/govern internal/metric internal/query internal/tick internal/wire pkg/events",
	"tools/duckdbcheck": "internal/export internal/query internal/store internal/store/segment internal/tick pkg/events",
	"tools/parts":       "github.com/CycloneDX/cyclonedx-go",
	"tools/man":         "github.com/cpuguy83/go-md2man github.com/spf13/cobra github.com/spf13/pflag internal/cli internal/config",
	"tools/lint":        "",
	"tools/testgpu":     "pkg/events sim",
	"tools/measure":     "",
}

// unsafeFiles are where memory is read or handed over by address.
var unsafeFiles = []string{
	"internal/decode/", "internal/probes/ring.go", "internal/probes/link_session.go", "internal/proc/perfring.go", "internal/jail/enter.go",
	"internal/privilege/",
	"benchmarks/switches/", "test/packages/",
}

// testPackages are packages that only tests import.
var testPackages = []string{"internal/testkit", "internal/store/storetest"}

// source is a Go file and what it imports.
type source struct {
	path    string // from the repository root
	imports []string
}

func (s source) pkg() string { return filepath.ToSlash(filepath.Dir(s.path)) }

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources parses every Go file of the repository, whatever it is built for.
func sources(t *testing.T) []source {
	t.Helper()
	const root = ".."
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "bin" || path != root && strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s := source{path: filepath.ToSlash(rel)}
		for _, spec := range file.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, p)
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// standard says whether a package is of the standard library: these have no dot
// in their first element.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// may says whether the list, of this module's packages and others' prefixes,
// has the import.
func may(list []string, path string) bool {
	if own, ok := strings.CutPrefix(path, "ingero/"); ok {
		return slices.Contains(list, own)
	}
	return standard(path) || slices.ContainsFunc(list, func(l string) bool {
		return path == l || strings.HasPrefix(path, l+"/")
	})
}

// Every import outside tests stands in the table, and every package has its line.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		list, known := allowed[s.pkg()]
		if s.test() {
			continue
		}
		seen[s.pkg()] = true
		if !known {
			t.Errorf("%s: package %s has no line in the table of imports", s.path, s.pkg())
			continue
		}
		for _, path := range s.imports {
			if !may(strings.Fields(list), path) {
				t.Errorf("%s may not import %s", s.path, path)
			}
		}
	}
	if !seen["internal/probes"] || !seen["pkg/events"] {
		t.Error("the packages were not found")
	}
}

// Memory is read by address in a few files only.
func TestUnsafe(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains(s.imports, "unsafe") && !slices.ContainsFunc(unsafeFiles, func(f string) bool { return strings.HasPrefix(s.path, f) }) {
			t.Errorf("%s may not import unsafe", s.path)
		}
	}
}

// Files that may be hostile are read by internal/elffile, since debug/elf is not made for them.
func TestELF(t *testing.T) {
	for _, s := range sources(t) {
		if slices.Contains(s.imports, "debug/elf") && !s.test() && s.pkg() != "internal/testkit" {
			t.Errorf("%s may not import debug/elf", s.path)
		}
	}
}

// Nothing that runs in the product imports a test's package, and the shared
// vocabulary can be used by other programs: it needs the standard library alone.
func TestProductNeedsNoTests(t *testing.T) {
	for _, s := range sources(t) {
		product := strings.HasPrefix(s.path, "internal/") && !slices.Contains(testPackages, s.pkg()) || strings.HasPrefix(s.path, "cmd/") || strings.HasPrefix(s.path, "pkg/")
		if !product || s.test() {
			continue
		}
		for _, path := range s.imports {
			if path == "testing" || slices.Contains(testPackages, strings.TrimPrefix(path, "ingero/")) {
				t.Errorf("%s imports %s", s.path, path)
			}
			if s.pkg() == "pkg/events" && (!standard(path) || strings.HasPrefix(path, "ingero/")) {
				t.Errorf("%s imports %s, which is not of the standard library", s.path, path)
			}
		}
	}
}

// The table itself is checked: what it forbids is found.
func TestMay(t *testing.T) {
	list := strings.Fields("golang.org/x/sys internal/bpf")
	for path, want := range map[string]bool{
		"fmt": true, "encoding/json": true, "golang.org/x/sys/unix": true, "golang.org/x/sysless": false,
		"ingero/internal/bpf": true, "ingero/internal/bpf/x": false, "ingero/internal/store": false, "github.com/a/b": false,
	} {
		if got := may(list, path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
}
