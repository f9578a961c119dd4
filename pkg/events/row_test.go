package events

import (
	"strings"
	"testing"
)

func TestEveryRowCompiles(t *testing.T) {
	symbols := map[string]string{}
	for i := range Catalog {
		r := &Catalog[i]
		t.Run(r.Name, func(t *testing.T) {
			if _, _, err := r.Rules(); err != nil {
				t.Error(err)
			}
			if r.Op.Source().String() == "" || strings.HasPrefix(r.Op.Source().String(), "source(") {
				t.Errorf("op %#04x has no source", uint16(r.Op))
			}
			for _, s := range r.AllSymbols() {
				if other, dup := symbols[s]; dup {
					t.Errorf("symbol %s is also in row %s", s, other)
				}
				symbols[s] = r.Name
			}
		})
	}
}

func TestRules(t *testing.T) {
	row := Row{Name: "f", Params: "a, b int, g dim3, p, x int, y int, z int"}
	for _, tt := range []struct {
		expr string
		want Rule
		err  string
	}{
		{expr: "a", want: Rule{Take: TakeSlot, Slot: 1, Bytes: 8}},
		{expr: "b", want: Rule{Take: TakeSlot, Slot: 2, Bytes: 4}},
		{expr: "g", want: Rule{Take: TakeDim3, Slot: 3}},
		{expr: "*p", want: Rule{Take: TakeOut, Slot: 5, Bytes: 8}},
		{expr: "a*p", want: Rule{Take: TakeProduct, Slot: 1, Slot2: 5, Bytes: 8}},
		{expr: "x*y", want: Rule{Take: TakeProduct, Slot: 6, Slot2: 7, Bytes: 4}},
		{expr: "a*x", err: "of one type"},
		{expr: "x|y|z", want: Rule{Take: TakePack3, Slot: 6}},
		{expr: "p+32", want: Rule{Take: TakeMem, Slot: 5, Bytes: 8, Off: 32}},
		{expr: "p+24:int", want: Rule{Take: TakeMem, Slot: 5, Bytes: 4, Off: 24}},
		{expr: "p+12:dim3", want: Rule{Take: TakeMemDim3, Slot: 5, Off: 12}},
		{expr: "p+112*120", want: Rule{Take: TakeMemProduct, Slot: 5, Bytes: 8, Off: 112, Off2: 120}},
		{expr: "=3", want: Rule{Take: TakeConst, Off: 3}},
		{expr: "q", err: "no such parameter"},
		{expr: "*q", err: "no such parameter"},
		{expr: "a*q", err: "no such parameter"},
		{expr: "x|z|y", err: "three int parameters"},
		{expr: "p+x", err: "bad offset"},
		{expr: "p+1:float", err: "bad type"},
		{expr: "=-1", err: "not a constant"},
	} {
		t.Run(tt.expr, func(t *testing.T) {
			r := row
			r.Keep = []string{tt.expr}
			got, _, err := r.Rules()
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error = %v, want one with %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got[0] != tt.want {
				t.Errorf("rule = %+v, want %+v", got[0], tt.want)
			}
		})
	}
}

func TestParamListRefuses(t *testing.T) {
	for _, params := range []string{
		"a, b, c, d, e, g dim3",       // half in r9, half on the stack
		"a, b, c, d, e, f, h, g dim3", // half in x7, half on the stack
		"a float",
		"a b c",
		"a,,b",
	} {
		t.Run(params, func(t *testing.T) {
			r := Row{Name: "f", Params: params}
			if got, err := r.ParamList(); err == nil {
				t.Errorf("ParamList = %+v, want an error", got)
			}
		})
	}
}

func TestOpByName(t *testing.T) {
	for name, want := range map[string]string{
		"cudaStreamSync":              "cudaStreamSynchronize",
		"cuMemAlloc":                  "cuMemAlloc",
		"cuMemAlloc_v2":               "cuMemAlloc",
		"CUDALAUNCHKERNEL":            "cudaLaunchKernel",
		"cudaStreamSynchronize_ptsz":  "cudaStreamSynchronize",
		"cuMemcpyHtoDAsync_v2_ptsz":   "cuMemcpyHtoDAsync",
		"cudaLaunchCooperativeKernel": "cudaLaunchCooperativeKernel",
		"cudaDeviceSync":              "cudaDeviceSynchronize",
		"cuCtxSync":                   "cuCtxSynchronize",
		"cuMemFree":                   "cuMemFree",
		"__cudaLaunchKernel_ptsz":     "__cudaLaunchKernel",
	} {
		op, ok := OpByName(name)
		if !ok || op.String() != want {
			t.Errorf("OpByName(%q) = %v, %v, want %s", name, op, ok, want)
		}
	}
	if op, ok := OpByName("cudaNoSuchThing"); ok {
		t.Errorf("OpByName of nonsense = %v", op)
	}
}

func TestPackDim3(t *testing.T) {
	for _, d := range [][3]uint32{{1, 2, 3}, {1<<31 - 1, 65535, 65535}, {0, 0, 0}} {
		x, y, z := UnpackDim3(PackDim3(d[0], d[1], d[2]))
		if got := [3]uint32{x, y, z}; got != d {
			t.Errorf("UnpackDim3(PackDim3(%v)) = %v", d, got)
		}
	}
}
