package unwind

import (
	"testing"
	"time"

	"ingero/internal/testkit"
)

// After exec a process has none of its parent's mappings, also if its fork is handled late. Mappings that
// were read after the exec stay.
func TestKeeperExecOfChild(t *testing.T) {
	testkit.NeedTool(t, "cat")
	parent, child := cat(t), cat(t)
	start := time.Now()
	exec := start.Add(time.Second)
	for name, c := range map[string]struct {
		added time.Time // when the child was added; zero: it was not
		kept  bool
	}{
		"forked":            {},
		"added before exec": {start, false},
		"added after exec":  {exec.Add(1), true},
	} {
		f := newFake(t)
		k := NewKeeper(Options{Kernel: f})
		k.Add(parent)
		k.work(exec.Add(1)) // what the parent has then is not the child's
		k.Forked(parent, child)
		k.work(start)
		if !c.added.IsZero() {
			k.Add(child)
			k.work(c.added)
		}
		k.Execed(child, exec)
		k.work(exec.Add(rereadFirst / 2))
		if _, kept := f.spaces[child]; kept != c.kept {
			t.Errorf("%s: the kernel has mappings of the child: %t", name, kept)
		}
		k.work(exec.Add(2 * rereadFirst))
		if !known(t, f, child) {
			t.Errorf("%s: the new program's mappings were not read", name)
		}
	}
}
