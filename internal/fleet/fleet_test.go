package fleet

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"ingero/internal/wire"
)

// Usual forms of machine addresses are accepted, and nothing else.
func TestNew(t *testing.T) {
	for text, want := range map[string]string{
		"gpu-7:8080": "https://gpu-7:8080", "gpu-7": "https://gpu-7:8080", "GPU-7:1": "https://gpu-7:1", "http://a:8080": "http://a:8080", "http://a": "http://a:8080",
		"https://a:8080/": "https://a:8080", "[::1]:8080": "https://[::1]:8080", "10.0.0.7:9": "https://10.0.0.7:9",
		"": "", "ftp://a:1": "", "http://": "", "a:b": "", "a/b": "", "http://u:p@a:1": "", "a:1?x=1": "", "a:1#x": "", "a b": "",
	} {
		f, err := New(Options{Nodes: []string{text}})
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken as %s", text, f.nodes[0].base)
			}
			continue
		}
		if err != nil || f.nodes[0].base.String() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	many := make([]string, maxNodes+1)
	for i := range many {
		many[i] = fmt.Sprintf("a%d:1", i)
	}
	for name, o := range map[string]Options{
		"twice": {Nodes: []string{"a", "https://A:8080"}}, "too many": {Nodes: many}, "pin": {Pins: []string{"SHA256:00"}}, "ca": {CA: "/dev/null"}, "no ca": {CA: "/none"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// A clock's offset lies within the bounds of every reading, until a clock is set.
func TestBounds(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name          string
		readings      [][2]time.Duration // offset when requested, and the time until the answer
		ahead, within time.Duration
	}{
		{"one", [][2]time.Duration{{80 * ms, 4 * ms}}, 78 * ms, 2 * ms},
		{"the quicker of two", [][2]time.Duration{{90 * ms, 40 * ms}, {80 * ms, 4 * ms}}, 78 * ms, 2 * ms},
		{"slow on the way there, then slow on the way back", [][2]time.Duration{{90 * ms, 11 * ms}, {80 * ms, 11 * ms}}, 79500 * time.Microsecond, 500 * time.Microsecond},
		{"behind", [][2]time.Duration{{-70 * ms, 20 * ms}, {-78 * ms, 6 * ms}}, -81 * ms, 3 * ms},
		{"set in between", [][2]time.Duration{{80 * ms, 2 * ms}, {2 * ms, 4 * ms}}, 0, 2 * ms},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bounds
			for _, r := range tt.readings {
				b.read(r[0], r[1])
			}
			if ahead, within := b.middle(); ahead != tt.ahead || within != tt.within {
				t.Errorf("%s ahead, give or take %s, want %s and %s", ahead, within, tt.ahead, tt.within)
			}
		})
	}
}

// The majority's clock is right; a machine with skew is reported, and queried by its own clock.
func TestCompare(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		ahead   []time.Duration
		within  time.Duration
		want    []string
		shifted []bool
	}{
		{"all agree", []time.Duration{1 * ms, -2 * ms, 9 * ms}, ms, nil, []bool{false, false, false}},
		{"one is off", []time.Duration{0, 80 * ms, ms}, ms, []string{"the clock of m1 is 80ms ahead of the others'"}, []bool{false, true, false}},
		{"one is behind", []time.Duration{0, -80 * ms, ms}, ms, []string{"the clock of m1 is 80ms behind the others'"}, []bool{false, true, false}},
		{"of two, one", []time.Duration{0, 80 * ms}, ms, []string{"the clock of m1 "}, []bool{false, true}},
		{"alone", []time.Duration{80 * ms}, ms, []string{"the clock of m0 "}, []bool{true}},
		{"this one is", []time.Duration{80 * ms, 81 * ms, 79 * ms}, ms, []string{"the clock of this machine is 79ms behind the nodes' clocks"}, []bool{true, true, true}},
		{"not surely", []time.Duration{0, 15 * ms, 0}, 9 * ms, nil, []bool{false, false, false}},
		{"of clocks that are known to 2 ms, to 4", []time.Duration{-3 * ms, 80 * ms, -ms, -2 * ms}, 2 * ms, []string{"the clock of m1 is 81ms ahead of the others' (±4ms)"}, []bool{false, true, false, false}},
		{"not to be reported", []time.Duration{0, 15 * ms, 0}, 20 * ms, []string{"skew of m0 is known only within", "skew of m1 is known only within", "skew of m2 is known only within"}, []bool{false, false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &Fleet{o: Options{Skew: 10 * ms}}
			for i, a := range tt.ahead {
				f.met = append(f.met, &Machine{Name: fmt.Sprintf("m%d", i), Ahead: a, Within: tt.within})
			}
			f.compare()
			notes := f.Notes()
			if len(notes) != len(tt.want) {
				t.Fatalf("notes %q, want %q", notes, tt.want)
			}
			for i := range notes {
				if !strings.Contains(notes[i], tt.want[i]) {
					t.Errorf("note %q, want %q", notes[i], tt.want[i])
				}
			}
			for i, m := range f.met {
				if got := f.shift(m) != 0; got != tt.shifted[i] {
					t.Errorf("%s: moved %v", m.Name, got)
				}
			}
		})
	}
}

// Duplicate machine names get their addresses.
func TestTellApart(t *testing.T) {
	f := &Fleet{met: []*Machine{{Name: "a", Address: "x:1"}, {Name: "b", Address: "y:1"}, {Name: "a", Address: "z:1"}}}
	f.disambiguate()
	if got := f.met[0].Name + ", " + f.met[1].Name + ", " + f.met[2].Name; got != "a (x:1), b, a (z:1)" {
		t.Errorf("got %s", got)
	}
}

// member is a rank that has entered done collectives, one each second from second 1 on, each later
// by late.
func member(rank int32, node string, done int, late time.Duration) Member {
	m := Member{Node: node, Rank: wire.Rank{Rank: rank, Ranks: 4, PID: uint32(rank) + 1, State: "active", Done: uint64(done), SeenNS: 100e9}}
	for i := range done {
		m.Entries = append(m.Entries, wire.Entry{Seq: uint64(i + 1), Op: "ncclAllReduce", TimeNS: int64(i+1)*1e9 + int64(late)})
	}
	return m
}

func TestGroup(t *testing.T) {
	with := func(m Member, change func(*Member)) Member { change(&m); return m }
	endedAt := func(ms int64) func(*Member) { return func(m *Member) { m.EndedNS = ms * 1e6 } }
	const ms = time.Millisecond
	for _, tt := range []struct {
		name string
		all  []Member
		want string
	}{
		{"in step", []Member{member(0, "a", 5, 0), member(1, "b", 5, 0)}, "unseen [2 3], 5 compared"},
		{"one is missing", []Member{member(0, "a", 5, 0), member(1, "b", 3, 0)}, "unseen [2 3], absent 1 #4 for 1m36s, 3 compared"},
		{"who is behind most", []Member{member(0, "a", 5, 0), member(1, "b", 3, 0), member(2, "c", 2, 0)}, "unseen [3], absent 2 #3 for 1m37s, 2 compared"},
		{"not for long enough", []Member{member(0, "a", 5, 0), with(member(1, "b", 4, 0), func(m *Member) { m.SeenNS = 5.9e9 })}, "unseen [2 3], 4 compared"},
		{"not by a clock that is off", []Member{member(0, "a", 5, 0), with(member(1, "b", 4, 0), func(m *Member) { m.SeenNS, m.within = 6.1e9, 200*ms })}, "unseen [2 3], 4 compared"},
		{"all were killed", []Member{with(member(0, "a", 5, 0), endedAt(5100)), with(member(1, "b", 4, 0), endedAt(5100))}, "unseen [2 3], 4 compared"},
		{"killed after a hang", []Member{with(member(0, "a", 5, 0), endedAt(46_000)), with(member(1, "b", 4, 0), endedAt(46_000))}, "unseen [2 3], absent 1 #5 for 41s, 4 compared"},
		{"one died, others wait", []Member{member(0, "a", 5, 0), with(member(1, "b", 4, 0), endedAt(4500)), with(member(2, "c", 5, 0), endedAt(6000))}, "unseen [3], absent 1 #5 for 1m35s, 4 compared"},
		{"destroyed", []Member{member(0, "a", 5, 0), with(member(1, "b", 4, 0), func(m *Member) { m.State = "destroyed" })}, "unseen [2 3], 4 compared"},
		{"alone", []Member{member(3, "a", 5, 0)}, "unseen [0 1 2], 0 compared"},
		{"late", []Member{member(0, "a", 5, 0), member(1, "b", 5, 3*ms), member(2, "c", 5, ms)}, "unseen [3], 5 compared, late 1 5 times 10ms"},
		{"late, but for the clocks", []Member{member(0, "a", 5, 0), with(member(1, "b", 5, 3*ms), func(m *Member) { m.within = 4 * ms })}, "unseen [2 3], 5 compared"},
		{"late on one machine", []Member{with(member(0, "a", 5, 0), func(m *Member) { m.within = 4 * ms }), with(member(1, "a", 5, 3*ms), func(m *Member) { m.within = 4 * ms })},
			"unseen [2 3], 5 compared, late 1 5 times 15ms"},
		{"reported twice", []Member{member(0, "a", 5, 0), member(0, "a", 5, 0), member(1, "b", 5, 0)}, "unseen [2 3], 5 compared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := groupOf("c", tt.all)
			got := fmt.Sprintf("unseen %v", g.Unseen)
			for i := range g.Absent {
				got += fmt.Sprintf(", absent %d #%d for %s", g.Absent[i].Rank.Rank, g.Absent[i].Seq, g.Absent[i].For)
			}
			got += fmt.Sprintf(", %d compared", g.Compare)
			for i := range g.Late {
				got += fmt.Sprintf(", late %d %d times %s", g.Late[i].Rank.Rank, g.Late[i].Times, g.Late[i].Waited)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Rows of machines with different columns lack the others' columns.
func TestConcatenate(t *testing.T) {
	f := &Fleet{slow: map[string]bool{}}
	answer := func(name string, columns []string, rows ...wire.Row) Answer[wire.Rows] {
		return Answer[wire.Rows]{Machine: &Machine{Name: name}, Value: wire.Rows{Columns: columns, Rows: rows}}
	}
	var out Result
	f.concatenate(&out, []Answer[wire.Rows]{
		answer("a", []string{"x", "y"}, wire.Row{int64(1), int64(2)}), answer("b", []string{"y", "z"}, wire.Row{int64(3), int64(4)}), answer("c", []string{"x", "y"}, wire.Row{nil, "5"}),
	})
	if got := fmt.Sprint(out.Columns, out.Rows); got != "[node x y z] [[a 1 2 <nil>] [b <nil> 3 4] [c <nil> 5 <nil>]]" {
		t.Errorf("got %s", got)
	}
	if notes := f.Notes(); len(notes) == 0 || !strings.Contains(notes[0], "b returned other columns") {
		t.Errorf("notes %q", notes)
	}
}

// A machine's text cannot control a terminal.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{"gpu-7": "gpu-7", "a\x1b[31m\n\u202e": "a?[31m??", "größe": "größe", "\xff": "?", "abcdefghijk": "abcdefghij"} {
		if got := printable(in, 10); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// An unknown host name is reported as such, however deep the error is.
func TestUnknownName(t *testing.T) {
	f, err := New(Options{Nodes: []string{"no-such-host.invalid:8080"}})
	if err != nil {
		t.Fatal(err)
	}
	p := f.problem(f.nodes[0], "", fmt.Errorf("dial: %w", &net.DNSError{Err: "no such host", Name: "no-such-host.invalid", IsNotFound: true}))
	if p.Node != "no-such-host.invalid:8080" || p.What != "cannot be resolved" || p.Do == "" {
		t.Errorf("got %+v", p)
	}
}
