//go:build measure

package raw

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/test/real"
)

// times is the victims' schedule: shorter than in their lab, so that tapes are small.
var times = real.Schedule{Lead: 2500 * ms, Lasts: 1500 * ms, Tail: 1200 * ms}

// recordReal records the real programs that -record names, or "real" for all that fit small tapes.
// It reports whether there was one.
func recordReal(t *testing.T) (done bool) {
	for i := range real.Victims {
		v := &real.Victims[i]
		name := "real-" + real.FileName(v.Name)
		if *recorded == name || *recorded == "real" && v.Small {
			done = true
			t.Run(name, func(t *testing.T) { recordVictim(t, v, name) })
		}
	}
	return done
}

// alone gives the victim's threads priority over all others: the machine may be busy. They are in
// this process's cgroup.
func alone(t *testing.T) {
	t.Helper()
	group := testkit.CgroupOf(t, os.Getpid())
	if err := os.WriteFile(filepath.Join(group, "cpu.rt_runtime_us"), []byte("900000"), 0o644); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	for field := range strings.FieldsSeq(string(text)) {
		if pid, _ := strconv.Atoi(field); pid != os.Getpid() {
			first(t, pid)
		}
	}
}

func recordVictim(t *testing.T, v *real.Victim, name string) {
	testkit.First(t)
	j := real.Start(t, v, "../../real/testdata/victims", t.TempDir())
	alone(t)
	var out bytes.Buffer
	x, w := live(t, &out, j.PID, 0, nil, func() truth {
		j.Fault(times)
		wait(times.Lead + times.Lasts + times.Tail - 300*ms) // the trace ends before the job
		return truth{}
	})
	said := j.End()
	x = truth{About: v.Script + " " + strings.Join(v.Args, " "), Rules: v.Rules, Culprits: said.Culprits, From: said.From, To: said.To}
	if x.LostMin, x.LostMax = said.Lost(); len(v.Rules) == 0 {
		x = truth{About: x.About}
	}
	keep(t, name, out.Bytes(), &reported{Truth: x, Ticks: normal(t, w.ticks)}, w)
}
