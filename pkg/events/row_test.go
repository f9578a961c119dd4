package events

import (
	"slices"
	"strings"
	"testing"
)

// conventions are the calling conventions that rows are compiled for.
var conventions = map[string]Convention{"amd64": AMD64, "arm64": ARM64}

func TestEveryRowCompiles(t *testing.T) {
	for i := range Catalog {
		r := &Catalog[i]
		t.Run(r.Name, func(t *testing.T) {
			for name, cc := range conventions {
				if _, _, err := r.Rules(cc); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if r.Op.Source().String() == "" || strings.HasPrefix(r.Op.Source().String(), "source(") {
				t.Errorf("op %#04x has no source", uint16(r.Op))
			}
			if strings.HasPrefix(r.Class.String(), "class(") {
				t.Errorf("%s has no class", r.Name)
			}
			roles := map[Role]string{}
			for _, k := range append(r.Keep[:len(r.Keep):len(r.Keep)], r.Tag) {
				role, _ := SplitRole(k)
				if role != RoleNone && roles[role] != "" {
					t.Errorf("%s and %s have one role", roles[role], k)
				}
				roles[role] = k
			}
		})
	}
}

// In each version of the library a symbol belongs to one row.
func TestSymbolsAreOfOneRow(t *testing.T) {
	for version := range 20 {
		of := map[string]string{}
		for i := range Catalog {
			for _, s := range Catalog[i].Exports() {
				if !s.In(version) {
					continue
				}
				if of[s.Name] != "" {
					t.Errorf("version %d: %s is of %s and of %s", version, s.Name, of[s.Name], Catalog[i].Name)
				}
				of[s.Name] = Catalog[i].Name
			}
		}
	}
}

func TestSymbolVersions(t *testing.T) {
	r := Row{Name: "f", Symbols: []string{"f", "f@12-", "f@-11", "f@11-12"}}
	for i, want := range [][]int{{0, 11, 12, 13}, {0, 12, 13}, {11}, {11, 12}} {
		var got []int
		for _, v := range []int{0, 11, 12, 13} {
			if r.Exports()[i].In(v) {
				got = append(got, v)
			}
		}
		if s := r.Exports()[i]; s.Name != "f" || !slices.Equal(got, want) {
			t.Errorf("%s counts in %v, want %v", r.Symbols[i], got, want)
		}
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
		{expr: "*p:int", want: Rule{Take: TakeOut, Slot: 5, Bytes: 4}},
		{expr: "*p+8", want: Rule{Take: TakeOut, Slot: 5, Bytes: 8, Off: 8}},
		{expr: "*p:float", err: "bad type"},
		{expr: "p+16:volume", want: Rule{Take: TakeMemVolume, Slot: 5, Bytes: 8, Off: 16}},
		{expr: "y|b", want: Rule{Take: TakePair, Slot: 7, Slot2: 2, Bytes: 4}},
		{expr: "a|b", err: "two int parameters"},
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
			got, _, err := r.Rules(AMD64)
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
	for params, cc := range map[string]Convention{
		"a, b, c, d, e, g dim3":       AMD64, // half in r9, half on the stack
		"a, b, c, d, e, f, h, g dim3": ARM64, // half in x7, half on the stack
		"a float":                     AMD64,
		"a b c":                       AMD64,
		"a,,b":                        AMD64,
		"a struct12":                  AMD64,
		"a struct8":                   ARM64,
	} {
		t.Run(params, func(t *testing.T) {
			r := Row{Name: "f", Params: params}
			if got, err := r.ParamList(cc); err == nil {
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

// A structure by value is on the stack or behind a pointer, and the next parameter is in the next
// register. Values in memory are read the same way.
func TestStructsByValue(t *testing.T) {
	r := Row{Name: "f", Params: "p struct32, v int, e struct24, a, b, c, d, z, last int",
		Keep: []string{"p+8", "e+0:volume", "v", "last"}}
	for name, want := range map[string][]Rule{
		"amd64": {{Take: TakeMem, Bytes: 8, Off: 8}, {Take: TakeMemVolume, Bytes: 8, Off: 32}, {Take: TakeSlot, Slot: 1, Bytes: 4},
			{Take: TakeMem, Bytes: 4, Off: 56}}, // in slot 14, beyond MaxSlots
		"arm64": {{Take: TakeMem, Slot: 1, Bytes: 8, Off: 8}, {Take: TakeMemVolume, Slot: 3, Bytes: 8}, {Take: TakeSlot, Slot: 2, Bytes: 4},
			{Take: TakeSlot, Slot: 9, Bytes: 4}},
	} {
		got, _, err := r.Rules(conventions[name])
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	r.Keep = []string{"e"}
	if _, _, err := r.Rules(AMD64); err == nil {
		t.Error("a structure was taken for a number")
	}
}

// The first kept value of a row with a text must be the name, where the kernel looks for it.
func TestTextNeedsAName(t *testing.T) {
	for keep, ok := range map[string]bool{"name:p": true, "name": false, "ptr:p": false} {
		r := Row{Name: "f", Params: "p, q", Keep: []string{keep}, Text: true}
		if _, _, err := r.Rules(AMD64); (err == nil) != ok {
			t.Errorf("%s: %v", keep, err)
		}
	}
	if _, _, err := (&Row{Name: "f", Text: true}).Rules(AMD64); err == nil {
		t.Error("a row that keeps nothing has a text")
	}
}
