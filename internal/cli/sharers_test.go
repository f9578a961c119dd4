package cli

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
)

// A replay names the untraced processes that had the slower GPU open when ingero looked.
func TestSharersInAReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	x, err := startFixture(path, "gpu-7-one", "gpu-7", began)
	for s := range 16 {
		if s == 8 {
			x.pace = 40 // the GPU takes 20 ms for a step, not 15 ms
		}
		if s == 11 {
			x.host = []tick.HostSum{{HostKey: tick.HostKey{Kind: tick.HostGPUOpen, PID: 5210, Object: tick.GPUObject + "0"}, Comm: "python3", Count: 1}}
			x.others = []tick.Process{{PID: 5210, PPID: 1, Comm: "python3", Started: began.Add(3 * time.Second), Where: tick.Where{Cmdline: "python3 train.py"}}}
		}
		if err == nil {
			err = x.second()
		}
	}
	if err = errors.Join(err, x.end()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ format, want string }{
		{"text", "not traced: python3 train.py (5210), started 5.0"},
		{"text", "ingero trace --pid 4821,5210"},
		{"json", `"sharers": [ { "pid": 5210, "name": "python3", "cmdline": "python3 train.py", "started": "2026-11-20T14:41:03Z" } ]`},
	} {
		args := []string{"explain", "--db", path}
		if tt.format == "json" {
			args = append(args, "--json")
		}
		code, out, stderr := command(t, later, nil, args...)
		if text := strings.Join(strings.Fields(out), " "); code != 0 || !strings.Contains(text, tt.want) {
			t.Errorf("%d, %s, want %q:\n%s", code, stderr, tt.want, out)
		}
	}
}
