package events

import (
	"fmt"
	"slices"
	"strings"
)

// Source is the layer of an operation: the high byte of an [Op].
type Source uint8

// The layers, in display order.
const (
	SourceRuntime Source = 1 // CUDA runtime, libcudart
	SourceDriver  Source = 2 // CUDA driver, libcuda
	SourceGraph   Source = 3 // CUDA graphs, of either library
	SourceNCCL    Source = 4 // libnccl
	SourceHost    Source = 5 // kernel of the host
	SourceGPU     Source = 6 // the device itself
	SourceNVTX    Source = 7 // libnvToolsExt
)

var sourceNames = [...]string{
	SourceRuntime: "cudart", SourceDriver: "driver", SourceGraph: "graph",
	SourceNCCL: "nccl", SourceHost: "host", SourceGPU: "gpu", SourceNVTX: "nvtx",
}

// String returns the short name of the source, as it appears in JSON and SQL.
func (s Source) String() string {
	if int(s) < len(sourceNames) && sourceNames[s] != "" {
		return sourceNames[s]
	}
	return fmt.Sprintf("source(%d)", uint8(s))
}

// Op is one operation as one number: the source in the high byte, a code that
// never changes its meaning in the low byte. Zero is no operation.
type Op uint16

// Source returns the layer of the operation.
func (o Op) Source() Source { return Source(o >> 8) }

// String returns the operation's name, for example "cudaMemcpyAsync".
func (o Op) String() string {
	if r := rowByOp[o]; r != nil {
		return r.Name
	}
	return fmt.Sprintf("op(%#04x)", uint16(o))
}

// Row returns the catalog row of the operation, or nil when there is none.
func (o Op) Row() *Row { return rowByOp[o] }

// OpByName finds an operation by its name, by any of its symbols, or by one of the short names of
// ingero 0.9 (cudaStreamSync, cuMemAlloc). It ignores case.
func OpByName(name string) (Op, bool) {
	o, ok := opByName[strings.ToLower(name)]
	return o, ok
}

// OpsNamed returns all operations with a name, in catalog order; nil for an unknown name. It
// accepts the same names as [OpByName]. Several operations are called cuMemAlloc, which libcuda
// exports in two forms.
func OpsNamed(name string) []Op {
	name = strings.ToLower(name)
	if full, ok := shortNames[name]; ok {
		name = strings.ToLower(full)
	}
	return slices.Clone(opsByName[name])
}

var (
	opsByName = map[string][]Op{}
	rowByOp   = map[Op]*Row{}
	opByName  = map[string]Op{}
)

// shortNames are the operation names of ingero 0.9, besides the real names.
var shortNames = map[string]string{
	"cudastreamsync": "cudaStreamSynchronize",
	"cudadevicesync": "cudaDeviceSynchronize",
	"cudaeventsync":  "cudaEventSynchronize",
	"custreamsync":   "cuStreamSynchronize",
	"cuctxsync":      "cuCtxSynchronize",
}

func init() {
	for i := range Catalog {
		r := &Catalog[i]
		if rowByOp[r.Op] != nil {
			panic(fmt.Sprintf("events: %s and %s have the same number %#04x", rowByOp[r.Op].Name, r.Name, uint16(r.Op)))
		}
		rowByOp[r.Op] = r
		rolePlaces[r.Op] = placeRoles(r)
		for _, s := range r.AllSymbols() {
			opByName[strings.ToLower(s)] = r.Op
		}
		for _, s := range slices.Concat(r.AllSymbols(), []string{r.Name}) {
			s = strings.ToLower(s)
			if !slices.Contains(opsByName[s], r.Op) {
				opsByName[s] = append(opsByName[s], r.Op)
			}
		}
	}
	for i := range Catalog { // a name outranks another row's legacy symbol
		opByName[strings.ToLower(Catalog[i].Name)] = Catalog[i].Op
	}
	for short, name := range shortNames {
		opByName[short] = opByName[strings.ToLower(name)]
	}
}
