package real

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A report is right if its cause, culprit, loss and line are right, and it has no false cause.
func TestJudge(t *testing.T) {
	v := &Victim{Name: "loader: computes", Rules: []string{"input-wait"}, Line: "compute"}
	x := &Truth{PID: 7, LostNS: int64(time.Second), Culprits: []uint32{8}, From: time.Unix(10, 0), To: time.Unix(14, 0)}
	const right = `{"pid": 7, "rule": "input-wait", "lost_ns": 950000000, "culprits": [{"pid": 8, "what": "work.py:12", "lost_ns": 950000000}]}`
	less := strings.ReplaceAll(right, "950", "850")
	reads := *x
	reads.RanNS = int64(100 * time.Millisecond)
	if got := Judge(v, &reads, read(t, less), []string{"work.py:12"}); !got.Right() {
		t.Errorf("the fault was on a CPU for a tenth of the time: %v", got.Respects())
	}
	for _, c := range []struct {
		name, chains string
		victim       *Victim
		right        bool
	}{
		{"right", right, v, true},
		{"silence", ``, v, false},
		{"another rule", `{"pid": 7, "rule": "cpu-taken", "lost_ns": 950000000, "culprits": [{"pid": 8, "what": "work.py:12", "lost_ns": 950000000}]}`, v, false},
		{"another process", `{"pid": 7, "rule": "input-wait", "lost_ns": 950000000, "culprits": [{"pid": 9, "what": "work.py:12", "lost_ns": 950000000}]}`, v, false},
		{"too little", less, v, false},
		{"of a rank beside", right + `, {"pid": 8, "rule": "input-wait", "lost_ns": 900000000, "culprits": [{"pid": 7, "lost_ns": 900000000}]}`, v, true},
		{"a longer number", `{"pid": 7, "rule": "input-wait", "lost_ns": 950000000, "culprits": [{"pid": 8, "what": "work.py:121", "lost_ns": 950000000}]}`, v, false},
		{"one more cause", right + `, {"pid": 7, "rule": "lock-wait", "lost_ns": 100000000}`, v, false},
		{"one more cause, of another program", right + `, {"pid": 7, "rule": "cpu-taken", "lost_ns": 100000000, "culprits": [{"pid": 99, "lost_ns": 100000000}]}`, v, true},
		{"little, and little that another program took", less + `, {"pid": 7, "rule": "cpu-taken", "lost_ns": 100000000, "window_ns": 16000000000, "culprits": [{"pid": 99, "lost_ns": 100000000}]}`, v, false},
		{"little, and much that another program took", less + `, {"pid": 7, "rule": "cpu-taken", "lost_ns": 300000000, "window_ns": 16000000000, "culprits": [{"pid": 99, "lost_ns": 300000000}]}`, v, true},
		{"one more cause, of ingero", right + `, {"pid": 7, "rule": "cpu-taken", "lost_ns": 100000000, "culprits": [{"pid": 99, "agent": true, "lost_ns": 100000000}]}`, v, false},
		{"one more cause, of a part", right + `, {"pid": 7, "rule": "lock-wait", "lost_ns": 100000000}`, &Victim{Rules: v.Rules, With: []string{"lock-wait"}}, true},
		{"a healthy victim", ``, &Victim{}, true},
		{"a cause of a healthy victim", right, &Victim{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Judge(c.victim, x, read(t, c.chains), []string{"work.py:12"}); got.Right() != c.right {
				t.Errorf("right: %t, want %t: %v, false causes %v", got.Right(), c.right, got.Respects(), got.False)
			}
		})
	}
}

func read(t *testing.T, chains string) *Report {
	t.Helper()
	r := &Report{}
	if err := json.Unmarshal([]byte(`{"chains": [`+chains+`]}`), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Each victim has a unique name, its scripts and a marked line, and there are enough faults and healthy jobs.
func TestVictimsAreEnough(t *testing.T) {
	const scripts = "testdata/victims"
	var names []string
	faults, healthy, lines := 0, 0, Marked(t, scripts)
	for i := range Victims {
		v := &Victims[i]
		if slices.Contains(names, v.Name) {
			t.Errorf("two victims are named %s", v.Name)
		}
		for _, script := range []string{v.Script, v.Beside} {
			if _, err := os.Stat(filepath.Join(scripts, script)); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}
		if v.Line != "" && len(lines[v.Line]) == 0 {
			t.Errorf("%s: no line of %s is marked as the fault", v.Name, v.Line)
		}
		if names = append(names, v.Name); len(v.Rules) > 0 {
			faults++
		} else {
			healthy++
		}
	}
	if faults < 20 || healthy < 10 {
		t.Errorf("%d faults and %d healthy jobs, want 20 and 10", faults, healthy)
	}
}
