package testkit

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// budgetFile has a line for each program and a column for each kernel.
const budgetFile = "test/budget.txt"

const budgetHead = "# Instructions that the verifier looks at in each program, by kernel. -: it is not loaded there.\n"

// budget is the content of the file, by kernel and program.
type budget struct {
	kernels []string
	of      map[string]map[string]uint32
}

// Budget checks the verifier's instruction counts of a kernel against test/budget.txt. The test
// fails if a program is more than a tenth above its line, or has no line, or if got lacks a program
// of the file. With -update it writes the column instead.
func Budget(t testing.TB, kernel string, got map[string]uint32) {
	t.Helper()
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, budgetFile)
	b, err := readBudget(path)
	if err != nil {
		t.Fatal(err)
	}
	if Updating() {
		if !slices.Contains(b.kernels, kernel) {
			b.kernels = append(b.kernels, kernel)
		}
		b.of[kernel] = got
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	NeedKernel(t, "a column in "+budgetFile+" (this is "+kernel+")", slices.Contains(b.kernels, kernel))
	want := b.of[kernel]
	for name, n := range got {
		limit, ok := want[name]
		switch {
		case !ok:
			t.Errorf("%s has no figure for %s in %s: run with -update", name, kernel, budgetFile)
		case n > limit+limit/10:
			t.Errorf("%s on %s: %d instructions verified, %d budgeted: make it smaller, or say why not and run with -update", name, kernel, n, limit)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s: a figure for %s on %s, where it is not loaded", budgetFile, name, kernel)
		}
	}
}

func readBudget(path string) (b budget, err error) {
	b.of = map[string]map[string]uint32{}
	text, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] == "#":
		case b.kernels == nil:
			b.kernels = f[1:]
			for _, k := range b.kernels {
				b.of[k] = map[string]uint32{}
			}
		case len(f) != len(b.kernels)+1:
			return b, fmt.Errorf("%s: %q has no %d columns", budgetFile, line, len(b.kernels)+1)
		default:
			for i, k := range b.kernels {
				if f[i+1] == "-" {
					continue
				}
				n, err := strconv.ParseUint(f[i+1], 10, 32)
				if err != nil {
					return b, fmt.Errorf("%s: %q: %w", budgetFile, line, err)
				}
				b.of[k][f[0]] = uint32(n)
			}
		}
	}
	return b, nil
}

func (b *budget) String() string {
	programs := map[string]bool{}
	for _, of := range b.of {
		for name := range of {
			programs[name] = true
		}
	}
	out := budgetHead + fmt.Sprintf("%-20s", "program")
	for _, k := range b.kernels {
		out += fmt.Sprintf(" %10s", k)
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		out += fmt.Sprintf("\n%-20s", name)
		for _, k := range b.kernels {
			n := "-"
			if v, ok := b.of[k][name]; ok {
				n = strconv.FormatUint(uint64(v), 10)
			}
			out += fmt.Sprintf(" %10s", n)
		}
	}
	return out + "\n"
}
