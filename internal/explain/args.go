package explain

import (
	"slices"
	"strconv"
	"strings"

	"ingero/pkg/events"
)

// argKind is how a kept value is formatted.
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
	out  bool // written by the call: missing if it failed
}

// argNames are names for expressions without a good one: cudaLaunchConfig_t and CUlaunchConfig
// begin alike, and so do all versions of CUDA_MEMCPY2D.
var argNames = map[string]arg{
	"config+0:dim3":  {name: "gridDim", kind: argDim3},
	"config+12:dim3": {name: "blockDim", kind: argDim3},
	"config+24:int":  {name: "sharedMem"},
	"config+32":      {name: "stream", kind: argPointer},
	"pCopy+32":       {name: "srcDevice", kind: argPointer},
	"pCopy+80":       {name: "dstHost", kind: argPointer},
	"pCopy+112*120":  {name: "width*height"},
}

// roleKinds maps roles to formats. Other values are numbers.
var roleKinds = map[events.Role]argKind{
	events.RolePtr: argPointer, events.RoleDst: argPointer, events.RoleSrc: argPointer, events.RoleStream: argPointer,
	events.RoleFunc: argPointer, events.RoleEvent: argPointer, events.RoleGraph: argPointer, events.RoleExec: argPointer,
	events.RoleContext: argPointer, events.RolePool: argPointer, events.RoleHandle: argPointer, events.RoleModule: argPointer,
	events.RoleLibrary: argPointer, events.RoleKernel: argPointer, events.RoleName: argPointer, events.RoleComm: argPointer,
	events.RoleCommID: argPointer, events.RoleParent: argPointer, events.RoleImage: argPointer,
	events.RoleGrid: argDim3, events.RoleBlock: argDim3, events.RoleKind: argCopyKind,
}

// argNumbers are the 64-bit parameters without a role that are numbers. Others are pointers or
// handles. 32-bit parameters and values in memory are numbers.
var argNumbers = []string{
	"height", "width", "sharedMem", "numDevices", "count", "numOps", "offset", "dstOffset", "srcOffset", "mcOffset", "alignment",
	"minBytesToKeep", "*free", "*total", "value", "id",
}

// args has the values of every row: its Keep, and its Tag last if it has one.
var args = func() map[events.Op][]arg {
	out := map[events.Op][]arg{}
	for i := range events.Catalog {
		r := &events.Catalog[i]
		for _, keep := range slices.Concat(r.Keep, []string{r.Tag}) {
			if keep != "" {
				out[r.Op] = append(out[r.Op], argOf(r, keep))
			}
		}
	}
	return out
}()

// argOf returns how a kept value is shown: by its parameter's name, or, for a value in memory, by
// its role.
func argOf(r *events.Row, keep string) arg {
	role, expr := events.SplitRole(keep)
	if a, ok := argNames[expr]; ok {
		return a
	}
	body, typ, _ := strings.Cut(expr, ":")
	name, out := strings.CutPrefix(body, "*")
	a := arg{name: name, out: out, kind: roleKinds[role]}
	base, at, memory := strings.Cut(name, "+")
	first, _, packed := strings.Cut(name, "|")
	switch {
	case role == events.RoleKind || expr[0] == '=':
		a.name, a.kind = "kind", argCopyKind
	case role == events.RoleNone && !memory && typ != "int" && !strings.Contains(name, "*") && !slices.Contains(argNumbers, expr) && !isInt(r, expr):
		a.kind = argPointer
	}
	switch {
	case packed: // gridDimX|gridDimY|gridDimZ
		a.name = strings.TrimSuffix(first, "X")
	case memory && role != events.RoleNone && a.kind != argCopyKind:
		a.name = role.String()
	case memory && a.kind != argCopyKind:
		a.name = base + "." + at
	}
	return a
}

// isInt reports whether a row's value is a 32-bit parameter.
func isInt(r *events.Row, expr string) bool {
	params, _ := r.ParamList(events.ARM64) // tests of package events cover the error
	i := slices.IndexFunc(params, func(p events.Param) bool { return p.Name == expr })
	return i >= 0 && params[i].Type == "int"
}

// copyKinds are the names of cudaMemcpyKind.
var copyKinds = [...]string{"HostToHost", "HostToDevice", "DeviceToHost", "DeviceToDevice", "Default"}

// eachArg calls f with the known values of a call. An inherited call has the values of the launch
// around it.
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

// appendArg formats a value as JSON.
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
