package unwind

import (
	"errors"
	"slices"
	"testing"
	"time"

	"ingero/internal/testkit"
)

// stepped is a Keeper of one process, for which the test runs the work at times of its choice.
type stepped struct {
	*Keeper
	fake  *fake
	pid   uint32
	start time.Time
	maps  []Mapping // one of each file with a table, the largest table last
	bytes []int     // sizes of these tables
}

// step starts a stepped Keeper of a process. Unless o.Eager is set, it has all tables.
func step(t *testing.T, pid uint32, o Options) *stepped {
	t.Helper()
	f := newFake(t)
	o.Kernel = f
	s := &stepped{Keeper: NewKeeper(o), fake: f, pid: pid, start: time.Now()}
	s.Add(pid)
	s.settle(t, 0)
	for _, m := range s.procs[pid].space.maps {
		if m.Means == MeansTable && !slices.ContainsFunc(s.maps, func(n Mapping) bool { return n.Object == m.Object }) {
			s.maps = append(s.maps, m)
		}
	}
	size := func(m Mapping) int { return int(s.files.objects[m.Object].image.frames.size) }
	slices.SortFunc(s.maps, func(a, b Mapping) int { return size(a) - size(b) })
	for _, m := range s.maps {
		s.bytes = append(s.bytes, 4*s.files.objects[m.Object].words)
	}
	return s
}

// settle does all work at a time, and checks that the tables in the kernel are within the bound.
func (s *stepped) settle(t *testing.T, after time.Duration) Figures {
	t.Helper()
	s.Check()
	for i := 0; s.work(s.start.Add(after)); i++ {
		if i == 100 {
			t.Fatal("the work does not end")
		}
	}
	s.count(0)
	bytes := 0
	for _, words := range s.fake.tables {
		bytes += 4 * len(words)
	}
	g := s.Figures()
	if g.Bytes != bytes || g.Tables != len(s.fake.tables) || bytes > s.files.Bytes {
		t.Errorf("after %v: %d tables of %d bytes, counted as %d of %d; the bound is %d", after, len(s.fake.tables), bytes, g.Tables, g.Bytes,
			s.files.Bytes)
	}
	return g
}

// use looks up an address in each of these files, and returns how many have a table.
func (s *stepped) use(maps ...Mapping) (found int) {
	for _, m := range maps {
		if _, end := s.fake.find(s.pid, m.Start); end == Done {
			found++
		}
	}
	return found
}

func sum(bytes []int) (n int) {
	for _, b := range bytes {
		n += b
	}
	return n
}

// With room for all tables but one, a wanted table replaces one that is unused for ten seconds, and
// never one in use.
func TestKeeperRoom(t *testing.T) {
	testkit.NeedTool(t, "cat")
	pid := cat(t)
	all := step(t, pid, Options{})
	if len(all.maps) < 3 {
		t.Fatalf("%d tables, want 3", len(all.maps))
	}
	for name, tt := range map[string]struct {
		every   time.Duration // between two uses of all tables but one
		unused  bool          // the last of these is used once only
		evicted uint64
	}{
		"all used":          {time.Second, false, 0},
		"all seldom used":   {9 * time.Second, false, 0},
		"one is not used":   {time.Second, true, 1},
		"used in one batch": {time.Millisecond, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := step(t, pid, Options{Bytes: sum(all.bytes) - 4})
			last := len(s.maps) - 1 // there is no room for it at the start
			s.use(s.maps...)
			used := s.maps
			if tt.unused {
				used = append(slices.Clone(s.maps[1:last:last]), s.maps[last])
			}
			var g Figures
			for i := range 30 {
				g = s.settle(t, time.Duration(i)*tt.every)
				if i == 9 && g.Evicted != 0 {
					t.Errorf("%d tables were evicted after %v", g.Evicted, 9*tt.every)
				}
				s.use(used...)
			}
			if got, want := s.use(s.maps[last]) == 1, tt.evicted > 0; g.Evicted != tt.evicted || got != want {
				t.Errorf("%d tables were evicted, want %d; the wanted table is there: %v", g.Evicted, tt.evicted, got)
			}
		})
	}
}

// A table that has no room in any case evicts none of those that ended programs have left.
func TestNoEvictionInVain(t *testing.T) {
	testkit.NeedTool(t, "cat")
	s := step(t, cat(t), Options{})
	s.Ended(s.pid)
	before := s.settle(t, time.Second)
	if before.Tables != len(s.maps) {
		t.Fatalf("%d tables are left of %d", before.Tables, len(s.maps))
	}
	for _, wanted := range []bool{false, true} {
		if s.files.room(s.files.Bytes+4, wanted) {
			t.Error("there is room for more than the bound")
		}
	}
	if g := s.settle(t, time.Second); g.Tables != before.Tables || g.Evicted != 0 {
		t.Errorf("%d tables are left of %d", g.Tables, before.Tables)
	}
	vdso := 4 * s.files.vdso.words // always mapped
	if !s.files.room(s.files.Bytes-vdso, false) {
		t.Error("there is no room for a table as large as all others may be")
	}
	if g := s.settle(t, time.Second); g.Bytes != vdso || g.Evicted == 0 {
		t.Errorf("tables of %d bytes are left, want those of the vdso, %d bytes", g.Bytes, vdso)
	}
}

// If there is room for only one of two tables that are wanted at the same time, the kernel gets one.
func TestKeeperRoomForOne(t *testing.T) {
	testkit.NeedTool(t, "cat")
	pid := cat(t)
	all := step(t, pid, Options{})
	two := len(all.maps) - 2
	s := step(t, pid, Options{Bytes: sum(all.bytes[two:]) - 4, Eager: 1})
	s.use(s.maps[two:]...)
	if g := s.settle(t, time.Second); g.Tables != 1 || g.Refused != 1 || g.Evicted != 0 {
		t.Errorf("%+v, want one table", g)
	}
}

// A file that is used by each stack and has no table for lack of room costs few looks at the kernel's
// maps, and few tries.
func TestRefusedFileRests(t *testing.T) {
	testkit.NeedTool(t, "cat")
	pid := cat(t)
	all := step(t, pid, Options{})
	s := step(t, pid, Options{Bytes: sum(all.bytes) - 4})
	last := s.maps[len(s.maps)-1]
	const polls, every = 1250, 8 * time.Millisecond // ten seconds
	looks, before := 0, s.Figures().Refused
	for i := range polls {
		s.use(s.maps...)
		was := s.files.read
		if s.settle(t, time.Duration(i)*every); s.files.read != was {
			looks++
		}
	}
	if s.use(last) != 0 {
		t.Fatal("the file has a table")
	}
	// 20, 40, 80, 160 and 320 ms, then 500 ms; again after each try, at 1, 3 and 7 s.
	if tries := s.Figures().Refused - before; looks > 45 || tries > 5 {
		t.Errorf("%d looks, %d tries in %d polls", looks, tries, polls)
	}
}

// A table that the kernel does not take is tried again when wanted, after waits that double. Others
// do not wait for it.
func TestTableIsTriedAgain(t *testing.T) {
	testkit.NeedTool(t, "cat")
	pid := cat(t)
	type look struct{ ms, tables, tries int } // since the start
	for name, tt := range map[string]struct {
		files  int // that are wanted
		errors int // for lists with the first of them
		failed uint64
		looks  []look
	}{
		"no error":               {1, 0, 0, []look{{0, 1, 1}}},
		"one error":              {1, 1, 1, []look{{0, 0, 1}, {999, 0, 1}, {1000, 1, 2}, {9000, 1, 2}}},
		"three errors":           {1, 3, 1, []look{{0, 0, 1}, {1000, 0, 2}, {2999, 0, 2}, {3000, 0, 3}, {6999, 0, 3}, {7000, 1, 4}}},
		"one error for two":      {2, 1, 0, []look{{0, 2, 3}}},
		"two errors for two":     {2, 2, 1, []look{{0, 1, 3}, {999, 1, 3}, {1000, 2, 4}}},
		"the kernel has no room": {1, 100, 1, []look{{0, 0, 1}, {1000, 0, 2}, {1001, 0, 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := step(t, pid, Options{Eager: 1})
			tries, errs := 0, tt.errors
			s.fake.put = func(list []ObjectTable) error {
				tries++
				if errs > 0 && slices.ContainsFunc(list, func(o ObjectTable) bool { return o.Object == s.maps[0].Object }) {
					errs--
					return errors.New("no memory")
				}
				return nil
			}
			for _, l := range tt.looks {
				s.use(s.maps[:tt.files]...)
				g := s.settle(t, time.Duration(l.ms)*time.Millisecond)
				if g.Tables != l.tables || tries != l.tries {
					t.Errorf("after %d ms: %d tables, %d tries; want %d, %d", l.ms, g.Tables, tries, l.tables, l.tries)
				}
			}
			if g := s.Figures(); g.Failed != tt.failed {
				t.Errorf("%d files failed, want %d", g.Failed, tt.failed)
			}
		})
	}
}
