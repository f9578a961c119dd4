package explain

import (
	"slices"
	"strconv"
	"strings"

	"ingero/pkg/events"
)

// argKind is how a kept value is written.
type argKind uint8

const (
	argNumber argKind = iota
	argPointer
	argDim3
	argCopyKind // cudaMemcpyKind
)

// arg is one kept value of a row, by name.
type arg struct {
	name string
	kind argKind
	out  bool // written by the call: not there when it failed
}

// argNames are better names for expressions that have none of their own:
// cudaLaunchConfig_t and CUlaunchConfig begin alike, as does CUDA_MEMCPY2D of
// every version.
var argNames = map[string]arg{
	"config+0:dim3":  {name: "gridDim", kind: argDim3},
	"config+12:dim3": {name: "blockDim", kind: argDim3},
	"config+24:int":  {name: "sharedMem"},
	"config+32":      {name: "stream", kind: argPointer},
	"pCopy+32":       {name: "srcDevice", kind: argPointer},
	"pCopy+80":       {name: "dstHost", kind: argPointer},
	"pCopy+112*120":  {name: "width*height"},
}

// argNumbers are the parameters, and what they point to, that are numbers. All
// others of 64 bits are pointers or handles.
var argNumbers = []string{
	"count", "size", "bytesize", "byteCount", "n", "height", "width", "sharedMem", "sharedMemBytes", "gridWidth", "gridHeight",
	"numDevices", "flags", "value", "elementSizeBytes", "*pitch", "*pPitch",
}

// args are the values of every row: its Keep, and its Tag last when it has one.
var args = func() map[events.Op][]arg {
	out := map[events.Op][]arg{}
	for i := range events.Catalog {
		r := &events.Catalog[i]
		for _, keep := range slices.Concat(r.Keep, []string{r.Tag}) {
			if _, expr := events.SplitRole(keep); expr != "" {
				out[r.Op] = append(out[r.Op], argOf(expr))
			}
		}
	}
	return out
}()

func argOf(expr string) arg {
	if a, ok := argNames[expr]; ok {
		return a
	}
	if first, _, ok := strings.Cut(expr, "|"); ok { // gridDimX|gridDimY|gridDimZ
		return arg{name: strings.TrimSuffix(first, "X"), kind: argDim3}
	}
	name := strings.TrimPrefix(expr, "*")
	a := arg{name: name, kind: argPointer, out: name != expr}
	switch {
	case expr == "kind" || expr[0] == '=':
		a.name, a.kind = "kind", argCopyKind
	case slices.Contains(argNumbers, expr) || strings.Contains(name, "*"):
		a.kind = argNumber
	case name == "gridDim" || name == "blockDim":
		a.kind = argDim3
	}
	return a
}

// copyKinds are those of cudaMemcpyKind.
var copyKinds = [...]string{"HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice", "Default"}

// eachArg calls f with the values that a call carries and that are known. An
// inherited call's are those of the launch around it.
func eachArg(c *events.Call, f func(a *arg, v uint64)) {
	op := c.Op
	if c.Flags&events.CallInherited != 0 {
		op = c.Parent
	}
	row := op.Row()
	if row == nil {
		return
	}
	list := args[op]
	for i := range list {
		a := &list[i]
		v := uint64(c.Tag)
		if i < len(row.Keep) {
			v = c.Args[i]
		}
		missing := c.Flags&events.CallArgsPartial != 0 && v == 0
		if a.out && (c.Flags&(events.CallFailed|events.CallUnmeasured) != 0) || missing {
			continue
		}
		f(a, v)
	}
}

// appendArg writes a value as JSON.
func appendArg(b []byte, a *arg, v uint64) []byte {
	switch a.kind {
	case argPointer:
		b = append(b, `"0x`...)
		b = strconv.AppendUint(b, v, 16)
		return append(b, '"')
	case argDim3:
		x, y, z := events.UnpackDim3(v)
		b = append(b, '[')
		b = strconv.AppendUint(b, uint64(x), 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, uint64(y), 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, uint64(z), 10)
		return append(b, ']')
	case argCopyKind:
		if v < uint64(len(copyKinds)) {
			b = append(b, '"')
			b = append(b, copyKinds[v]...)
			return append(b, '"')
		}
	}
	return strconv.AppendUint(b, v, 10)
}
