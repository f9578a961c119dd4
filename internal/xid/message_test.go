package xid

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/tick"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		line string
		want tick.Xid // no code: not a fault
	}{
		{"NVRM: Xid (PCI:0000:75:00): 13, pid=1234, name=python3, Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address",
			tick.Xid{Code: 13, Bus: "0000:75:00", SaidPID: 1234, SaidName: "python3"}},
		{"NVRM: Xid (PCI:0000:9B:00): 45, pid='<unknown>', name=<unknown>, Ch 0000001a", tick.Xid{Code: 45, Bus: "0000:9b:00"}},
		{"NVRM: Xid (PCI:0000:75:00): 79, GPU has fallen off the bus.", tick.Xid{Code: 79, Bus: "0000:75:00"}},
		{"NVRM: Xid (0000:03:00): 31, Ch 00000001, engmask 00000101", tick.Xid{Code: 31, Bus: "0000:03:00"}},
		{"NVRM: Xid (PCI:000f:01:00.0): 95", tick.Xid{Code: 95, Bus: "000f:01:00"}},
		{"NVRM: Xid (PCI:0000:75:00): 48, pid='3432060', name=pt main, thread, Ch 0000000a", tick.Xid{Code: 48, Bus: "0000:75:00", SaidPID: 3432060, SaidName: "pt main"}},
		{"nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", tick.Xid{Code: 20034, Switch: true, Bus: "0000:05:00"}},
		// Lines of other writers, and incomplete ones.
		{"python3: NVRM: Xid (PCI:0000:75:00): 13, pid=1", tick.Xid{}},
		{"NVRM: Xid (PCI:[4711]: segfault at 0 ip 0000): 1", tick.Xid{}},
		{"NVRM: Xid (PCI:0000:75:00", tick.Xid{}},
		{"NVRM: Xid (PCI:0000:75:00): , pid=1", tick.Xid{}},
		{"NVRM: Xid (PCI:0000:75:00): 99999999999, pid=1", tick.Xid{}},
		{"NVRM: Xid (PCI:10000000000:75:00): 13", tick.Xid{}},
		{"x-nvswitch3: SXid (PCI:0000:05:00.0): 20034", tick.Xid{}},
		{"", tick.Xid{}},
	} {
		t.Run(tt.line, func(t *testing.T) {
			got, ok := Parse(tt.line)
			if ok != (tt.want.Code != 0) {
				t.Fatalf("got %v, %v", got, ok)
			}
			if _, msg, _ := strings.Cut(tt.line, ", "); ok {
				tt.want.Msg = msg
			}
			if !ok {
				got = tick.Xid{}
				tt.want = tick.Xid{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// All 172 published codes have a sentence and an action. The sentence for an unpublished code says
// that it is not published.
func TestCodes(t *testing.T) {
	rows := strings.Split(strings.TrimSuffix(codesTSV, "\n"), "\n")[1:]
	if len(rows) != 172 || len(codes()) != 172 {
		t.Fatalf("%d rows, %d codes; want 172", len(rows), len(codes()))
	}
	for n := range uint32(172) {
		c := Lookup(n + 1)
		if c.Name == "" || !strings.HasSuffix(c.Meaning, ".") || !strings.HasSuffix(c.Do, ".") {
			t.Errorf("%+v", c)
		}
	}
	used := map[string]bool{}
	for _, row := range rows {
		f := strings.Split(row, "\t")
		for _, key := range f[3:5] {
			if used[key] = true; actions[key] == "" {
				t.Errorf("%s: no action %q", f[0], key)
			}
		}
	}
	for i := range messageRules {
		used[messageRules[i].action], used[messageRules[i].then] = true, true
		if actions[messageRules[i].action] == "" || actions[messageRules[i].then] == "" {
			t.Errorf("no action %q or %q", messageRules[i].action, messageRules[i].then)
		}
	}
	for key := range actions {
		if !used[key] {
			t.Errorf("no code has the action %q", key)
		}
	}
	for code, want := range map[uint32]Code{
		79: {Name: "GPU_HAS_FALLEN_OFF_THE_BUS", Severity: "fatal", Do: "Reboot the machine."},
		13: {Name: "GR_EXCEPTION", Severity: "warning", Do: "Restart the affected program"},
		95: {Name: "UNCONTAINED_ERROR", Severity: "fatal", Do: "Stop all processes on this GPU and reset it"},
		48: {Name: "GPU_ECC_DBE", Severity: "fatal", Do: "Start no new work"},
	} {
		if got := Lookup(code); got.Name != want.Name || got.Severity != want.Severity || !strings.HasPrefix(got.Do, want.Do) {
			t.Errorf("%d: got %+v, want %+v", code, got, want)
		}
	}
	alone := LookupFault(&tick.Xid{Code: 45, At: 1})
	if later := LookupFault(&tick.Xid{Code: 45, At: 2}); !strings.HasPrefix(alone.Do, "If other faults are near it") || !strings.HasPrefix(later.Do, "Look at the first") {
		t.Errorf("alone %q, later %q", alone.Do, later.Do)
	}
	if c := Lookup(173); c.Name != "" || !strings.Contains(c.Meaning, "not published") || c.Do == "" {
		t.Errorf("173: %+v", c)
	}
	if c := LookupSwitch(20034, "Fatal, Link 30 LTSSM Fault Up"); c.Severity != "fatal" {
		t.Errorf("SXid 20034: %+v", c)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("NVRM: Xid (PCI:0000:75:00): 13, pid=1234, name=python3, x")
	f.Add("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal")
	f.Fuzz(func(t *testing.T, line string) {
		x, ok := Parse(line)
		if ok && Bus(x.Bus) != x.Bus {
			t.Errorf("bus %q", x.Bus)
		}
		l := &Log{}
		for _, x := range l.flush(l.record(nil, []byte(line))) {
			if Bus(x.Bus) != x.Bus {
				t.Errorf("bus %q", x.Bus)
			}
		}
	})
}
