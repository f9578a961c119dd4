package proc

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProgram(t *testing.T) {
	h := startHelper(t, func(c *exec.Cmd) {
		c.Args = []string{"a secret", "", "b"}
		c.Env = append(c.Env, "RANK=3", "PASSWORD=x", "EMPTY=", "RANKS=5")
	})
	p, err := FS{}.Process(h.pid)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FS{}.Program(h.pid, []string{"RANK", "EMPTY", "ABSENT"})
	want := &Program{StartTicks: p.StartTicks, Args: []string{"a secret", "", "b"}}
	if diff := cmp.Diff(map[string]string{"RANK": "3", "EMPTY": ""}, got.Vars); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	got.Vars = nil
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err = (FS{}).Program(h.pid, nil); err != nil || got.Vars != nil {
		t.Errorf("asked for no variables: %v, %v", got.Vars, err)
	}
}

func TestPick(t *testing.T) {
	names := []string{"RANK", "A"}
	for _, tt := range []struct {
		name, environ string
		want          map[string]string
	}{
		{"none", "", map[string]string{}},
		{"the first counts", "RANK=1\x00RANK=2\x00", map[string]string{"RANK": "1"}},
		{"others", "RANKS=1\x00XRANK=1\x00rank=1\x00A\x00", map[string]string{}},
		{"equals signs", "A==b=\x00", map[string]string{"A": "=b="}},
		{"cut short", "A=b\x00RANK=1", map[string]string{"A": "b", "RANK": "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, pick([]byte(tt.environ), names)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCgroupPaths(t *testing.T) {
	text := "9:cpuset:/slurm/job_1\n4:memory:/a\n3:cpu,cpuacct:/b\n2:devices:/a\n1:name=systemd:/d\n0::/\n"
	if diff := cmp.Diff([]string{"/b", "/a", "/d", "/slurm/job_1"}, cgroupPaths([]byte(text))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhole(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"a\x00b", "a\x00b"}, {"abc\x00", "abc\x00"}, // shorter than the limit
		{"a\x00b\x00c", "a\x00b\x00"}, {"abcde", ""}, {"ab\x00d\x00", "ab\x00d\x00"},
	} {
		if got := string(dropTruncated([]byte(tt.in), 5)); got != tt.want {
			t.Errorf("%q became %q, want %q", tt.in, got, tt.want)
		}
	}
}
