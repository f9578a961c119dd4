//go:build interop

package probes_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/pkg/events"
)

// headers has the prototypes of C headers, by symbol.
type headers struct {
	prototypes map[string][]string // the parameters of each declaration
	types      map[string]string   // the target of each typedef
}

var (
	comments = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	defaults = regexp.MustCompile(`__dv\([^)]*\)`)
	// The statements of a header, in order: a function's name from here on, the end of a name, a
	// type, or a function.
	statements = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*define[ \t]+(cu\w+)[ \t]+(?:__CUDA\w*_API_PT\w+\()?(cu\w+)` +
		`|^[ \t]*#[ \t]*undef[ \t]+(cu\w+)` +
		`|typedef\s+([^;{}()]+?)\s*\b(\w+)(?:\[\w+\])?\s*;` +
		`|typedef\s+(enum|struct|union)\b[^;{]*\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}\s*(\w+)\s*;` +
		`|typedef\s+[\w\s*]+\([^()]*?\*\s*(\w+)\s*\)` +
		`|(?:CUresult|cudaError_t|ncclResult_t|void|void\*\*|char)\s+(?:CUDAAPI\s+|CUDARTAPI\s+|CUDARTAPI_CDECL\s+)?((?:__cuda|cu|nccl)\w+)\s*\(([^()]*)\)\s*;`)
	declarator = regexp.MustCompile(`^(.*?[\s*])\w+\s*(\[\w*\])?$`)
	qualifiers = regexp.MustCompile(`\b(const|volatile|__device_builtin__)\b`)
)

// kinds maps types to the kinds of parameters in a row; structures of 8 bytes take a register.
var kinds = map[string]string{
	"int": "int", "unsigned int": "int", "unsigned": "int", "unsigned short": "int", "unsigned char": "int", "char": "int", "uint32_t": "int",
	"size_t": "", "long": "", "unsigned long": "", "unsigned long long": "", "long long": "", "uint64_t": "", "cuuint64_t": "", "cuuint32_t": "int",
	"dim3": "dim3", "struct cudaMemLocation": "", "CUmemLocation": "", "CUmemLocation_v1": "",
	"struct cudaExtent": "struct24", "struct cudaPitchedPtr": "struct32", "ncclUniqueId": "struct128",
	"cudaIpcMemHandle_t": "struct64", "cudaIpcEventHandle_t": "struct64", "CUipcMemHandle_v1": "struct64", "CUipcEventHandle_v1": "struct64",
}

func parseHeaders(text string) *headers {
	h := &headers{prototypes: map[string][]string{}, types: map[string]string{}}
	text = strings.ReplaceAll(defaults.ReplaceAllString(comments.ReplaceAllString(text, " "), ""), "\\\n", " ")
	renamed := map[string]string{}
	for _, m := range statements.FindAllStringSubmatch(text, -1) {
		switch {
		case m[1] != "":
			if strings.HasPrefix(m[2], m[1]) && m[2] != m[1] {
				renamed[m[1]] = m[2]
			}
		case m[3] != "":
			delete(renamed, m[3])
		case m[5] != "":
			if h.types[m[5]] == "" { // the first is for 64 bits
				h.types[m[5]] = m[4]
			}
		case m[7] != "":
			h.types[m[7]] = m[6]
		case m[8] != "":
			h.types[m[8]] = "*"
		case m[9] != "":
			name := m[9]
			if r := renamed[name]; r != "" {
				name = r
			}
			h.prototypes[name] = append(h.prototypes[name], strings.TrimSpace(m[10]))
		}
	}
	return h
}

// kindsOf returns the kinds of a declaration's parameters.
func (h *headers) kindsOf(declarations string) (ks []string) {
	if declarations == "" || declarations == "void" {
		return nil
	}
	for d := range strings.SplitSeq(declarations, ",") {
		ks = append(ks, h.kind(d))
	}
	return ks
}

// kind returns the kind of a parameter, from its declaration.
func (h *headers) kind(declaration string) string {
	declaration, _, _ = strings.Cut(declaration, "=")
	d := strings.TrimSpace(qualifiers.ReplaceAllString(declaration, ""))
	if m := declarator.FindStringSubmatch(d); m != nil {
		d = m[1] + m[2]
	}
	return h.kindOf(strings.Join(strings.Fields(d), " "))
}

func (h *headers) kindOf(typ string) string {
	for range 10 { // typedefs of typedefs
		if strings.ContainsAny(typ, "*[") {
			return ""
		}
		if k, ok := kinds[typ]; ok {
			return k
		}
		if strings.HasPrefix(typ, "enum") {
			return "int"
		}
		next, ok := h.types[typ]
		if !ok {
			break
		}
		typ = strings.Join(strings.Fields(qualifiers.ReplaceAllString(next, "")), " ")
	}
	return "unknown " + typ
}

// prototypeless lists rows of functions that these headers lack: those of CUDA 12.8 and 13 and of
// later NCCL, and two that only the compiler calls.
var prototypeless = []string{
	"cudaMemcpyWithAttributesAsync", "cuMemcpyWithAttributesAsync",
	"__cudaLaunchKernel", "cudaMemcpyBatchAsync", "cudaMemcpyBatchAsync.v12", "cudaMemcpy3DBatchAsync", "cudaMemcpy3DBatchAsync.v12",
	"cudaMemPrefetchBatchAsync", "cudaLibraryLoadData", "cudaLibraryLoadFromFile", "cudaLibraryUnload", "cudaLibraryGetKernel",
	"__cudaGetKernel", "cuMemcpyBatchAsync", "cuMemcpyBatchAsync.v1", "cuMemcpy3DBatchAsync", "cuMemcpy3DBatchAsync.v1",
	"cuMemPrefetchBatchAsync", "cuCtxCreate_v4", "ncclCommInitRankScalable", "ncclCommShrink", "ncclCommGrow", "ncclCommRevoke",
	"ncclCommWindowRegister", "ncclCommWindowDeregister", "ncclAlltoAll", "ncclGather", "ncclScatter", "ncclAllReduceConfig",
	"ncclReduceScatterConfig", "ncclAllGatherConfig", "ncclReduceConfig", "ncclBroadcastConfig", "ncclAlltoAllConfig",
	"ncclGatherConfig", "ncclScatterConfig", "ncclPutSignal", "ncclSignal", "ncclWaitSignal",
}

// Each row has the real function's number of parameters, each of the right width.
func TestRowsAgreeWithHeaders(t *testing.T) {
	found := map[string]bool{}
	compared := 0
	for version, text := range testkit.NVIDIAHeaders(t) {
		h := parseHeaders(text)
		if len(h.prototypes) < 500 {
			t.Fatalf("CUDA %d: %d prototypes: the headers were not understood", version, len(h.prototypes))
		}
		for i := range events.Catalog {
			r := &events.Catalog[i]
			params, err := r.ParamList(events.AMD64)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, p := range params {
				k := p.Type
				if k == "struct" {
					k = fmt.Sprintf("struct%d", p.Bytes)
				}
				want = append(want, k)
			}
			for _, s := range r.Exports() {
				if !s.In(version) {
					continue
				}
				name := strings.TrimSuffix(strings.TrimSuffix(s.Name, "_ptds"), "_ptsz")
				for _, declared := range h.prototypes[name] {
					got := h.kindsOf(declared)
					compared++
					found[r.Name] = true
					if !slices.Equal(got, want) {
						t.Errorf("CUDA %d: %s has %d parameters %q, row %s has %d %q", version, s.Name, len(got), got, r.Name, len(want), want)
					}
				}
			}
		}
	}
	for i := range events.Catalog { // the list above is exact
		name := events.Catalog[i].Name
		if events.Catalog[i].Lib == events.LibNVTX { // no header here
			continue
		}
		if found[name] == slices.Contains(prototypeless, name) {
			t.Errorf("%s: prototype found: %v", name, found[name])
		}
	}
	t.Logf("%d symbols of %d rows agree with their prototypes, %d rows have none", compared, len(found), len(prototypeless))
}
