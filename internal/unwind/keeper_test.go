package unwind

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// fake is a Kernel that stores what it is given, and looks up addresses as the walker would.
type fake struct {
	mu       sync.Mutex
	rules    []Rule
	tables   map[uint32][]uint32
	mappings map[uint32]fakeSet
	spaces   map[uint32]fakeSpace
	uses     map[uint32]uint32
	misses   uint64
	refusal  error                     // of all rules; nil: none
	put      func([]ObjectTable) error // called before tables are put; nil: no errors
	asked    int                       // how often rules were put
	t        *testing.T
}

type fakeSet struct {
	id   uint64
	maps []Mapping
}

type fakeSpace struct {
	slot         uint32
	id           uint64
	used, missed bool
}

func newFake(t *testing.T) *fake {
	return &fake{t: t, rules: make([]Rule, MaxRules), tables: map[uint32][]uint32{}, mappings: map[uint32]fakeSet{},
		spaces: map[uint32]fakeSpace{}, uses: map[uint32]uint32{}}
}

func (f *fake) PutRules(from int, rules []Rule) error {
	defer f.lock()()
	f.asked++
	copy(f.rules[from:], rules)
	return f.refusal
}

func (f *fake) lock() func() {
	f.mu.Lock()
	return f.mu.Unlock
}

func (f *fake) PutTables(list []ObjectTable) error {
	defer f.lock()()
	if f.put != nil {
		if err := f.put(list); err != nil {
			return err
		}
	}
	for _, t := range list {
		f.tables[t.Object] = t.Words
	}
	return nil
}

func (f *fake) DropTable(object uint32) error {
	defer f.lock()()
	if f.tables[object] == nil {
		f.t.Errorf("table %d dropped, which is not there", object)
	}
	delete(f.tables, object)
	return nil
}

func (f *fake) PutMappings(slot uint32, id uint64, maps []Mapping) error {
	defer f.lock()()
	f.mappings[slot] = fakeSet{id, maps}
	return nil
}

func (f *fake) DropMappings(slot uint32) error {
	defer f.lock()()
	delete(f.mappings, slot)
	return nil
}

func (f *fake) SetSpace(pid, slot uint32, id uint64) error {
	defer f.lock()()
	f.spaces[pid] = fakeSpace{slot: slot, id: id}
	return nil
}

func (f *fake) DropSpace(pid uint32) error {
	defer f.lock()()
	delete(f.spaces, pid)
	return nil
}

func (f *fake) Seen(pid uint32) (used, missed bool) {
	defer f.lock()()
	s := f.spaces[pid]
	return s.used, s.missed
}

func (f *fake) Uses(object uint32) uint32 {
	defer f.lock()()
	return f.uses[object]
}

func (f *fake) Misses() uint64 {
	defer f.lock()()
	return f.misses
}

// find returns what the walker would find at an address of a process.
func (f *fake) find(pid uint32, at uint64) (Rule, End) {
	defer f.lock()()
	s, ok := f.spaces[pid]
	set := f.mappings[s.slot]
	if !ok || set.id != s.id {
		return Rule{}, NoSpace
	}
	i := slices.IndexFunc(set.maps, func(m Mapping) bool { return m.Start <= at && at < m.End })
	if i < 0 {
		f.misses++
		s.missed = true
		f.spaces[pid] = s
		return Rule{}, NoMapping
	}
	m := set.maps[i]
	switch m.Means {
	case MeansNone:
		return Rule{}, JIT
	case MeansFP:
		return Rule{Kind: KindFP, CFA: 16, FP: -16, RA: -8}, Done
	}
	f.uses[m.Object]++
	words := f.tables[m.Object]
	if words == nil {
		if m.Object < MaxObjects {
			f.misses++
		}
		return Rule{}, NoTable
	}
	return (&Table{Words: words}).Find(at-m.Bias, &Rules{all: f.rules}), Done
}

// keep runs a Keeper for the length of the test.
func keep(t *testing.T, o Options) (*Keeper, *fake) {
	t.Helper()
	f := newFake(t)
	o.Kernel = f
	k := NewKeeper(o)
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { k.Run(ctx) })
	t.Cleanup(func() {
		stop()
		work.Wait()
	})
	return k, f
}

// cat starts a program that does nothing.
func cat(t *testing.T) uint32 {
	t.Helper()
	child := testkit.Start(t, exec.Command("cat"))
	child.Send("here")
	child.Line("here")
	return uint32(child.PID())
}

// known reports whether all code of a process has rules.
func known(t *testing.T, f *fake, pid uint32) bool {
	t.Helper()
	list, err := proc.FS{}.Code(pid, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	all := true
	for _, m := range list {
		if m.Path == "[vsyscall]" {
			continue
		}
		if _, end := f.find(pid, m.Start+(m.End-m.Start)/2); end != Done {
			all = false
		}
	}
	return all && len(list) > 2
}

// A process, its child and the program's next process get their mappings and tables. Each leaves no
// mappings when it ends.
func TestKeeper(t *testing.T) {
	testkit.NeedTool(t, "cat")
	k, f := keep(t, Options{})
	parent, child := cat(t), cat(t)
	k.Add(parent)
	testkit.Eventually(t, "the tables of a process", func() bool { return known(t, f, parent) })
	files := k.Figures().Files
	if files < 3 {
		t.Errorf("%d files", files)
	}
	// A child has its parent's mappings, and keeps them when the parent ends.
	k.Forked(parent, child)
	testkit.Eventually(t, "a child", func() bool { return k.Figures().Processes == 2 })
	k.Ended(parent)
	testkit.Eventually(t, "an end", func() bool { return k.Figures().Processes == 1 })
	if _, end := f.find(parent, 0x1000); end != NoSpace {
		t.Errorf("a process that has ended: %v", end)
	}
	testkit.Eventually(t, "the child's own mappings", func() bool { return known(t, f, child) })
	k.Ended(child)
	testkit.Eventually(t, "the last end", func() bool { g := k.Figures(); return g.Processes == 0 && g.Spaces == 0 })
	if len(f.mappings) != 0 || len(f.spaces) != 0 {
		t.Errorf("%d spaces, of %d processes, are left", len(f.mappings), len(f.spaces))
	}
	// Tables outlive processes: the program's next process has them at once.
	before := k.Figures()
	if before.Tables != files {
		t.Errorf("%d tables are kept of %d", before.Tables, files)
	}
	again := cat(t)
	k.Add(again)
	testkit.Eventually(t, "a process", func() bool { return known(t, f, again) })
	if g := k.Figures(); g.Tables != before.Tables || g.Files != before.Files {
		t.Errorf("%+v, before %+v", g, before)
	}
}

// keepExec starts a shell, waits for its tables, and executes another program in its process.
func keepExec(t *testing.T) (*Keeper, *fake, uint32) {
	t.Helper()
	testkit.NeedTool(t, "sh", "cat")
	k, f := keep(t, Options{})
	child := testkit.Start(t, exec.Command("sh", "-c", "echo up; read x; exec cat"))
	child.Line("up") // it has mapped its libraries
	pid := uint32(child.PID())
	k.Add(pid)
	testkit.Eventually(t, "the shell's tables", func() bool { return known(t, f, pid) })
	child.Send("exec")
	child.Send("here")
	child.Line("here")
	return k, f, pid
}

// After exec a process has no mapping of its former program.
func TestKeeperExec(t *testing.T) {
	k, f, pid := keepExec(t)
	k.Execed(pid, time.Now())
	testkit.Eventually(t, "the program's tables", func() bool { return known(t, f, pid) })
	if g := k.Figures(); g.Processes != 1 || g.Spaces != 1 {
		t.Errorf("%+v", g)
	}
}

// A library that is mapped later is found through its misses.
func TestKeeperMissed(t *testing.T) {
	k, f, pid := keepExec(t)
	testkit.Eventually(t, "the program's tables", func() bool {
		k.Check()
		return known(t, f, pid)
	})
}

// The numbers of processes that never existed or have ended leave nothing behind.
func TestKeeperGone(t *testing.T) {
	k, f := keep(t, Options{})
	here := cat(t)
	k.Add(1 << 22)
	k.Forked(1<<22, 1<<22+1)
	k.Execed(1<<22, time.Now())
	k.Ended(1 << 22)
	k.Add(here)
	testkit.Eventually(t, "a process that is there", func() bool { return known(t, f, here) })
	if g := k.Figures(); g.Processes != 1 {
		t.Errorf("%+v", g)
	}
}

// A process that cannot be read is tried again after waits that double, and misses do not hurry the
// next try.
func TestKeeperWaitsAfterErrors(t *testing.T) {
	testkit.NeedTool(t, "cat")
	f, pid, start := newFake(t), cat(t), time.Now()
	k := NewKeeper(Options{Kernel: f})
	f.refusal = errors.New("refused")
	f.spaces[pid] = fakeSpace{missed: true}
	k.Add(pid)
	for _, tt := range []struct {
		ms    int // since the start
		tries int
	}{{0, 1}, {19, 1}, {20, 2}, {59, 2}, {60, 3}, {139, 3}, {140, 4}, {299, 4}, {300, 5}} {
		f.misses++
		k.Check()
		k.work(start.Add(time.Duration(tt.ms) * time.Millisecond))
		if f.asked != tt.tries {
			t.Errorf("after %d ms: %d tries, want %d", tt.ms, f.asked, tt.tries)
		}
	}
	f.refusal = nil
	k.work(start.Add(time.Second))
	if _, known := f.mappings[f.spaces[pid].slot]; !known {
		t.Error("the process is not known after a try without an error")
	}
}

// A file has a table if some process can open it, whichever mapped it before.
func TestFileOfAnotherProcess(t *testing.T) {
	testkit.NeedTool(t, "cat")
	pid, now := cat(t), time.Now()
	list, err := proc.FS{}.Code(pid, now)
	if err != nil {
		t.Fatal(err)
	}
	at := list[slices.IndexFunc(list, func(m proc.Mapping) bool { return m.Key != proc.Key{} })]
	elsewhere := at // a mapping that the process no longer has
	elsewhere.Start, elsewhere.End, elsewhere.Path = at.End+1<<30, at.End+1<<31, "/nowhere"
	const gone = 1 << 22
	for name, tt := range map[string]struct {
		before func(s *files) // what an earlier process did
	}{
		"none before":               {func(*files) {}},
		"it ended before the open":  {func(s *files) { s.mappings(gone, []proc.Mapping{at}) }},
		"it ended before the table": {func(s *files) { s.mappings(pid, []proc.Mapping{at}); s.byKey[at.Key].pid = gone; s.load(now) }},
		"it unmapped the file before": {func(s *files) {
			s.mappings(pid, []proc.Mapping{at})
			s.byKey[at.Key].mapping = elsewhere
			s.byKey[at.Key].mapping.Key.Inode++
			s.load(now)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newFake(t)
			s := newFiles(Options{Kernel: k, Bytes: 1 << 30, Eager: 1 << 30, Log: slog.New(slog.DiscardHandler)})
			tt.before(s)
			if len(k.tables) > 0 {
				t.Fatal("the earlier process could open the file")
			}
			s.mappings(pid, []proc.Mapping{at})
			s.load(now)
			if len(k.tables) != 1 {
				t.Errorf("%d tables, want 1", len(k.tables))
			}
		})
	}
}

// A file that fails at each look counts once, and its mapping refers to a table only while the
// kernel can get one.
func TestFailedFileCountsOnce(t *testing.T) {
	testkit.NeedTool(t, "cat")
	pid, now := cat(t), time.Now()
	list, err := proc.FS{}.Code(pid, now)
	if err != nil {
		t.Fatal(err)
	}
	at := list[slices.IndexFunc(list, func(m proc.Mapping) bool { return m.Key != proc.Key{} })]
	const gone = 1 << 22
	for name, tt := range map[string]struct {
		before func(s *files) // the first look
		has    bool           // the mapping refers to a table
	}{
		"it was never opened":             {func(*files) {}, false},
		"it was not opened for its table": {func(s *files) { s.mappings(pid, []proc.Mapping{at}) }, true},
		"its table could not be built":    {func(s *files) { s.mappings(pid, []proc.Mapping{at}); s.fail(s.byKey[at.Key]) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFiles(Options{Kernel: newFake(t), Bytes: 1 << 30, Eager: 1 << 30, Log: slog.New(slog.DiscardHandler)})
			tt.before(s)
			for range 3 {
				maps, _ := s.mappings(gone, []proc.Mapping{at})
				s.load(now)
				if has := maps[0].Object != noObject; has != tt.has {
					t.Errorf("the mapping refers to a table: %v", has)
				}
			}
			if s.figures.Failed != 1 {
				t.Errorf("%d files failed, want 1", s.figures.Failed)
			}
		})
	}
}
