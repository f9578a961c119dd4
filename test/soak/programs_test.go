//go:build measure

package soak

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ingero/pkg/events"
)

// counts are numbers of calls by operation.
type counts map[events.Op]uint64

// program is a program's own report.
type program struct {
	pid   uint32
	ended float64 // s since boot, possibly a little late
	calls counts
	some  bool // it made other calls too, which it does not report
}

// programs returns the programs of some phases by PID, in the order of their ends.
func (s *soak) programs(phases ...string) map[uint32][]program {
	s.t.Helper()
	out := map[uint32][]program{}
	for _, phase := range phases {
		for _, result := range s.results(phase) {
			p := program{result.PID, result.ended, counts{}, result.Program == "infer"}
			for name, n := range result.calls() {
				op, ok := events.OpByName(name)
				if !ok {
					s.t.Fatalf("no operation %s", name)
				}
				p.calls[op] += n
			}
			out[p.pid] = append(out[p.pid], p)
		}
	}
	for _, all := range out {
		slices.SortStableFunc(all, func(a, b program) int { return cmp.Compare(a.ended, b.ended) })
	}
	return out
}

func total(all []program) counts {
	sums := counts{}
	for i := range all {
		for op, n := range all[i].calls {
			sums[op] += n
		}
	}
	return sums
}

// silent reports whether the program made no calls.
func (p program) silent() bool {
	for _, n := range p.calls {
		if n > 0 {
			return false
		}
	}
	return true
}

// lasting returns how many of the last programs with one PID account for exactly the counted
// runtime calls; -1: no number does. Calls of programs of another phase may be included. Programs
// report neither the runtime's driver calls nor the registration of kernels.
func lasting(all []program, got counts, others []program) int {
	reported, most := total(all), total(others)
	for from := range len(all) + 1 {
		want := total(all[from:])
		right := true
		for op := range want {
			right = right && got[op] >= want[op]
		}
		for op := range got {
			_, tells := reported[op]
			if (tells || strings.HasPrefix(op.String(), "cuda")) && !untold(all[from:], op) && !untold(others, op) {
				right = right && got[op] <= want[op]+most[op]
			}
		}
		if right {
			return len(all) - from
		}
	}
	return -1
}

// untold reports whether one of the programs may have made calls of op without reporting them.
func untold(all []program, op events.Op) bool {
	return slices.ContainsFunc(all, func(p program) bool {
		_, tells := p.calls[op]
		return p.some && !tells
	})
}

// result is a program's own report.
type result struct {
	PID     uint32
	Program string
	ended   float64 // s since boot, possibly a little late
	fields  map[string]json.RawMessage
}

// results returns the reports of the programs that began and ended in a phase.
func (s *soak) results(phase string) []result {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "out", phase+".*"))
	if err != nil {
		s.t.Fatal(err)
	}
	var out []result
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		timed := len(out) // number of reports with a time
		for line := range bytes.Lines(text) {
			var r result
			var at float64
			if n, _ := fmt.Sscanf(string(line), "at %f", &at); n == 1 {
				for ; timed < len(out); timed++ {
					out[timed].ended = at
				}
			}
			if line = bytes.TrimSpace(line); !bytes.HasPrefix(line, []byte("{")) {
				continue // output before the final report
			}
			err := json.Unmarshal(line, &r)
			if err == nil {
				err = json.Unmarshal(line, &r.fields)
			}
			if err != nil {
				s.t.Fatalf("%s: %v: %s", file, err, line)
			}
			out = append(out, r)
		}
		if timed < len(out) {
			s.t.Fatalf("%s: %d programs have no end", file, len(out)-timed)
		}
	}
	return out
}

// calls returns the calls of the process itself, by function.
func (r *result) calls() map[string]uint64 {
	out := map[string]uint64{}
	var op string
	for name, value := range r.fields {
		var n uint64
		switch {
		case name == "op":
			_ = json.Unmarshal(value, &op)
		case name == "also":
			_ = json.Unmarshal(value, &out)
		case r.Program == "multi" && name == "entered":
			_ = json.Unmarshal(value, &n)
			out["cudaStreamSynchronize"] += n
		case strings.HasPrefix(name, "cuda") && json.Unmarshal(value, &n) == nil:
			out[name] += n
		}
	}
	if op != "" {
		var n uint64
		_ = json.Unmarshal(r.fields["calls"], &n)
		out[op] += n
	}
	return out
}
