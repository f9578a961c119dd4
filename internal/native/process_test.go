package native

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// A library that replaced another at its addresses is found when the mappings are read again. The stacks
// from before an exec keep their names.
func TestReplacedLibrary(t *testing.T) {
	testkit.NeedTool(t, "cat")
	c := testkit.Start(t, exec.Command("cat"))
	c.Send("up")
	c.Line("up") // it has mapped its libraries
	pid := uint32(c.PID())
	code, err := proc.FS{}.Code(pid, time.Unix(0, far))
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(code)
	before[0].Path = "/replaced"
	gone := proc.Mapping{Start: 4096, End: 8192, Path: "/gone"} // before an exec
	before = append([]proc.Mapping{gone}, before...)
	start := time.Unix(1000, 0)
	now := start
	s := newSymbolizer(t, Limits{}, func() time.Time { return now })
	s.Learn(pid, before)
	for _, tt := range []struct {
		after time.Duration
		at    uint64
		want  string
	}{
		{0, code[0].Start + 8, "/replaced"},
		{rereadWait - 1, code[0].Start + 8, "/replaced"},
		{rereadWait, gone.Start + 8, gone.Path},
		{2 * rereadWait, code[0].Start + 8, code[0].Path},
	} {
		now = start.Add(tt.after)
		if got := s.Resolve(pid, far, []uint64{tt.at}, true); len(got) != 1 || got[0].Module != tt.want {
			t.Errorf("after %v: %+v, want %s", tt.after, got, tt.want)
		}
	}
}
