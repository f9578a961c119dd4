package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ingero/pkg/events"
)

// said is a program's own output: its calls and errors, by exported symbol.
type said struct {
	Program   string            `json:"program"`
	Calls     map[string]uint64 `json:"calls"`
	Errors    map[string]uint64 `json:"errors"`
	ElapsedNS int64             `json:"elapsed_ns"`
}

// seen is the final state of a trace.
type seen struct {
	Final bool `json:"final"`
	Ops   []struct {
		Op     string `json:"op"`
		Calls  uint64 `json:"calls"`
		Errors uint64 `json:"errors"`
	} `json:"ops"`
	Libraries []struct {
		Path   string `json:"path"`
		Probes int    `json:"probes"`
	} `json:"libraries"`
	Drops []json.RawMessage `json:"drops"`
}

// trace compares the calls of one program, by its own count, with those in the trace.
type trace struct {
	Name      string            `json:"name"`
	Program   json.RawMessage   `json:"program"`        // the program's own output
	Rows      int               `json:"attached_rows"`  // functions with probes, in all libraries
	Libraries []string          `json:"libraries"`      // attached libraries
	Calls     []count           `json:"calls"`          // calls of functions that the program counted
	Others    map[string]uint64 `json:"also_seen"`      // calls of other traced functions
	Drops     []json.RawMessage `json:"drops,omitzero"` // dropped records
}

type count struct {
	Op         string `json:"op"`
	Made       uint64 `json:"made"`
	Seen       uint64 `json:"seen"`
	MadeErrors uint64 `json:"made_errors"`
	SeenErrors uint64 `json:"seen_errors"`
}

// overhead is a program's own time without and with a trace, in alternating runs.
type overhead struct {
	Name        string  `json:"name"`
	WithoutNS   []int64 `json:"without_ns"`
	WithNS      []int64 `json:"with_ns"`
	MedianRatio float64 `json:"median_ratio"`
}

const rounds = 5

// programs traces each program once for its counts, then times it.
func (l *lab) programs() {
	driver := []string{"python3", filepath.Join(l.dir, "driver.py")}
	if !l.sim {
		driver = append(driver, "--check")
	}
	l.program("driver", driver, nil)
	if l.sim || !python(l.env, "torch") {
		return
	}
	loop := []string{"python3", filepath.Join(l.dir, "torch_loop.py")}
	l.program("torch", loop, []string{"--count"})
}

// program traces a command; counting has the extra arguments that make it count its calls.
func (l *lab) program(name string, cmd, counting []string) {
	p, s, err := l.traced(append(slices.Clone(cmd), counting...))
	if err != nil {
		l.fail("%s: %v", name, err)
		return
	}
	t := compare(p, s)
	t.Name = name
	l.r.Traces = append(l.r.Traces, t)
	for _, c := range t.Calls {
		if c.Made != c.Seen || c.MadeErrors != c.SeenErrors {
			l.fail("%s: %s: made %d with %d errors, seen %d with %d", name, c.Op, c.Made, c.MadeErrors, c.Seen, c.SeenErrors)
		}
	}
	if len(t.Calls) == 0 {
		l.fail("%s: it counted no call that is traced", name)
	}
	if t.Rows == 0 {
		l.fail("%s: no probe was attached", name)
	}
	o := overhead{Name: name}
	for range rounds {
		bare, err1 := l.bare(cmd)
		with, _, err2 := l.traced(cmd)
		if err := errors.Join(err1, err2); err != nil {
			l.fail("%s: %v", name, err)
			return
		}
		o.WithoutNS = append(o.WithoutNS, bare.ElapsedNS)
		o.WithNS = append(o.WithNS, with.said.ElapsedNS)
	}
	o.MedianRatio = medianRatio(o.WithNS, o.WithoutNS)
	l.r.Overhead = append(l.r.Overhead, o)
}

// output is a program's output, parsed and raw.
type output struct {
	said said
	raw  json.RawMessage
}

func (l *lab) bare(command []string) (said, error) {
	o, err := l.start(command)
	return o.said, err
}

// traced runs a command under ingero run, and returns the output of both.
func (l *lab) traced(command []string) (output, *seen, error) {
	lines := filepath.Join(l.tmp, "trace.jsonl")
	agent := []string{l.ingero(), "run", "--json", "--db", filepath.Join(l.tmp, "trace.db"), "--output", lines, "--"}
	o, err := l.start(append(agent, command...))
	if err != nil {
		return o, nil, err
	}
	f, err := os.Open(lines)
	if err != nil {
		return o, nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := last(f)
	return o, s, err
}

// start runs a command whose last line of output is its own report.
func (l *lab) start(command []string) (output, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = l.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		return output{}, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, stderr.Bytes())
	}
	text := bytes.TrimSpace(out)
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	o := output{raw: text}
	if err := json.Unmarshal(text, &o.said); err != nil {
		return o, fmt.Errorf("%s printed %q: %w", strings.Join(command, " "), text, err)
	}
	return o, nil
}

// last returns the last state in a trace's lines.
func last(in io.Reader) (*seen, error) {
	var s *seen
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var now seen
		if err := json.Unmarshal(lines.Bytes(), &now); err == nil && now.Ops != nil {
			s = &now
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errors.New("the trace has no line with operations")
	}
	if !s.Final {
		return nil, errors.New("the trace has no final line")
	}
	return s, nil
}

// compare compares the calls made with those seen, by operation.
func compare(o output, s *seen) trace {
	t := trace{Program: o.raw, Others: map[string]uint64{}, Drops: s.Drops, Libraries: []string{}, Calls: []count{}}
	for _, lib := range s.Libraries {
		t.Rows += lib.Probes
		t.Libraries = append(t.Libraries, lib.Path)
	}
	counts := map[string]*count{}
	for symbol, n := range o.said.Calls {
		op, ok := events.OpByName(symbol)
		if !ok {
			continue // not a traced function
		}
		c := counts[op.String()]
		if c == nil {
			c = &count{Op: op.String()}
			counts[c.Op] = c
		}
		c.Made += n
		c.MadeErrors += o.said.Errors[symbol]
	}
	for _, op := range s.Ops {
		if c := counts[op.Op]; c != nil {
			c.Seen += op.Calls
			c.SeenErrors += op.Errors
		} else {
			t.Others[op.Op] += op.Calls
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Calls = append(t.Calls, *counts[name])
	}
	return t
}

// medianRatio returns the median of a[i]/b[i].
func medianRatio(a, b []int64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
