package unwind

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// The key of a file is unknown once no process maps the file, although a copy of it is still mapped:
// the inode number can be reused.
func TestKeyOfUnmappedCopy(t *testing.T) {
	testkit.NeedTool(t, "cat")
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	s := newFiles(Options{Kernel: newFake(t)})
	dir := t.TempDir()
	// mapped adds the uses of a process that runs a copy.
	mapped := func(name string) (proc.Key, []use) {
		copied := filepath.Join(dir, name)
		testkit.CopyProgram(t, copied, path)
		child := testkit.Start(t, exec.Command(copied))
		child.Send("here")
		child.Line("here")
		pid := uint32(child.PID())
		list, err := proc.FS{}.Code(pid, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		at := list[slices.IndexFunc(list, func(m proc.Mapping) bool { return m.Path == copied })]
		_, used := s.mappings(pid, []proc.Mapping{at})
		return at.Key, used
	}
	a, used := mapped("a")
	b, _ := mapped("b")
	if s.byKey[a] == nil || s.byKey[a] != s.byKey[b] {
		t.Fatal("the copies are not the same file")
	}
	s.release(used)
	if s.byKey[a] != nil || s.byKey[b] == nil {
		t.Errorf("known: the unmapped copy %v, the mapped copy %v", s.byKey[a] != nil, s.byKey[b] != nil)
	}
}
