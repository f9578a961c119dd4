package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/testkit"
	"ingero/internal/wire"
)

// TestMain turns the test binary into a holder on request.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LOCK_TEST_DIR"); dir != "" {
		hold(dir)
		return
	}
	if dir := os.Getenv("LOCK_TEST_FIND"); dir != "" {
		find(dir)
		return
	}
	os.Exit(m.Run())
}

// hold takes the lock, publishes one state, and keeps both until its input ends.
func hold(dir string) {
	p := Place{Dirs: []string{dir}}
	fmt.Sscan(os.Getenv("LOCK_TEST_MARK"), &p.Mark)
	l, err := p.Acquire(wire.Holder{Command: "other trace", DB: "other.db", Since: time.Unix(7, 0).UTC()})
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	if err := l.Publish(wire.TraceState{Calls: 42}); err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println("held")
	_, _ = os.Stdin.Read(make([]byte, 1))
	if err := l.Release(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// find prints the PID of the process that holds the lock, if there is one.
func find(dir string) {
	p := Place{Dirs: []string{dir}}
	fmt.Sscan(os.Getenv("LOCK_TEST_MARK"), &p.Mark)
	switch h, err := p.Holder(); {
	case err != nil:
		fmt.Println(err)
	case h != nil:
		fmt.Println(h.PID)
	}
}

// place returns a lock for the test, invisible to other tests.
func place(t *testing.T, dirs ...string) Place {
	if len(dirs) == 0 {
		dirs = []string{t.TempDir()}
	}
	return Place{Dirs: dirs, Mark: 1<<40 + int64(os.Getpid())<<20 + time.Now().UnixNano()%(1<<20)}
}

// other starts a process that holds the lock p, in its own directory dir.
func other(t *testing.T, p Place, dir string) *testkit.Child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "LOCK_TEST_DIR="+dir, fmt.Sprint("LOCK_TEST_MARK=", p.Mark))
	c := testkit.Start(t, cmd)
	c.Line("held")
	return c
}

func refused(t *testing.T, p Place) wire.Holder {
	t.Helper()
	l, err := p.Acquire(wire.Holder{Command: "mine"})
	if err == nil {
		_ = l.Release()
		t.Fatal("acquired a lock that another process holds")
	}
	var held *LockedError
	if !errors.As(err, &held) {
		t.Fatalf("error = %v, want a LockedError", err)
	}
	return held.Holder
}

func acquire(t *testing.T, p Place) *Lock {
	t.Helper()
	l, err := p.Acquire(wire.Holder{Command: "mine", DB: "mine.db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestSecondIsToldWhoHolds(t *testing.T) {
	for name, same := range map[string]bool{"same file": true, "other container's file": false} {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			dir := p.Dirs[0]
			if !same {
				dir = t.TempDir()
			}
			c := other(t, p, dir)
			got := refused(t, p)
			want := wire.Holder{PID: c.PID(), UID: uint32(os.Geteuid()), Since: time.Unix(7, 0).UTC(), Command: "other trace", DB: "other.db"}
			if !same { // this process does not know its state's path
				want.Since, want.DB, want.Command = time.Time{}, "", command(c.PID())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("holder (-want +got):\n%s", diff)
			}
			c.CloseStdin()
			if err := c.Wait(); err != nil {
				t.Fatal(err)
			}
			if l := acquire(t, p); l.Stale != nil {
				t.Errorf("stale = %+v after a clean release", l.Stale)
			}
		})
	}
}

func TestKilledHolderIsStale(t *testing.T) {
	p := place(t)
	c := other(t, p, p.Dirs[0])
	h, err := p.Holder()
	if err != nil || h == nil {
		t.Fatalf("Holder = %v, %v", h, err)
	}
	if s, err := p.State(*h); err != nil || s.Calls != 42 {
		t.Fatalf("State = %+v, %v", s, err)
	}
	c.Signal(syscall.SIGKILL)
	_ = c.Wait()
	if h, err := p.Holder(); h != nil || err != nil {
		t.Errorf("Holder = %+v, %v after its death", h, err)
	}
	l := acquire(t, p)
	if l.Stale == nil || l.Stale.PID != c.PID() || l.Stale.Command != "other trace" {
		t.Errorf("stale = %+v, want pid %d", l.Stale, c.PID())
	}
	if s, err := p.State(l.self); !errors.Is(err, ErrNoState) {
		t.Errorf("the dead holder's state passes for the new one's: %+v, %v", s, err)
	}
}

func TestFallsBackToTheNextDirectory(t *testing.T) {
	next := t.TempDir()
	p := place(t, filepath.Join(t.TempDir(), "absent"), next)
	l := acquire(t, p)
	if l.dir != next {
		t.Errorf("lock lies in %s, want %s", l.dir, next)
	}
	text, err := os.ReadFile(filepath.Join(next, lockName))
	if err != nil {
		t.Fatal(err)
	}
	var h wire.Holder
	if err := json.Unmarshal(text, &h); err != nil || h.PID != os.Getpid() || h.DB != "mine.db" {
		t.Errorf("file says %s (%v)", text, err)
	}
}

// secret makes a file of another user.
func secret(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// traps are things to find in place of a lock file; each returns the file that must not change.
var traps = map[string]func(t *testing.T, path string) (victim string){
	"symbolic link": func(t *testing.T, path string) string {
		s := secret(t)
		if err := os.Symlink(s, path); err != nil {
			t.Fatal(err)
		}
		return s
	},
	"hard link": func(t *testing.T, path string) string {
		s := secret(t)
		if err := os.Link(s, path); err != nil {
			t.Fatal(err)
		}
		return s
	},
	"fifo": func(t *testing.T, path string) string {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return ""
	},
	"file of another user": func(t *testing.T, path string) string {
		testkit.NeedRoot(t)
		if err := os.WriteFile(path, []byte("keep me"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		return path
	},
}

func TestRefusesWhatOthersPutThere(t *testing.T) {
	for name, put := range traps {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			victim := put(t, filepath.Join(p.Dirs[0], lockName))
			l, err := p.Acquire(wire.Holder{})
			if err == nil {
				_ = l.Release()
				t.Fatal("acquired")
			}
			var unsafe *UnsafeError
			if !errors.As(err, &unsafe) || !strings.Contains(err.Error(), lockName) {
				t.Errorf("error = %v, want an UnsafeError with the path", err)
			}
			if victim == "" {
				return
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "keep me" {
				t.Errorf("the victim's file is %q now (%v)", text, err)
			}
		})
	}
}

func TestLockFileCannotBeLockedByOthers(t *testing.T) {
	p := place(t)
	acquire(t, p)
	st, err := os.Stat(filepath.Join(p.Dirs[0], lockName))
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, want 0600: any user who can open the file can lock it", st.Mode())
	}
}

func TestMarkOfAnUnprivilegedProcessIsIgnored(t *testing.T) {
	testkit.NeedRoot(t)
	p := place(t)
	dir := t.TempDir()
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	exe := copyOfSelf(t, dir)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "LOCK_TEST_DIR="+dir, fmt.Sprint("LOCK_TEST_MARK=", p.Mark))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	c := testkit.Start(t, cmd)
	c.Line("held")
	if h, err := p.Holder(); h != nil || err != nil {
		t.Errorf("Holder = %+v, %v: anyone could keep ingero from tracing", h, err)
	}
	acquire(t, p)
}

// copyOfSelf copies the test binary to where any user can run it.
func copyOfSelf(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "holder")
	testkit.WriteProgram(t, path, self)
	return path
}

func TestPublishReplaces(t *testing.T) {
	p := place(t)
	l := acquire(t, p)
	for n := range uint64(3) {
		if err := l.Publish(wire.TraceState{Calls: n, Processes: []wire.TracedProcess{{PID: 7, Comm: "train"}}}); err != nil {
			t.Fatal(err)
		}
		s, err := p.State(l.self)
		if err != nil || s.Calls != n || s.DB != "mine.db" || len(s.Processes) != 1 {
			t.Fatalf("State = %+v, %v, want %d calls", s, err, n)
		}
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(p.Dirs[0])
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
	if err := l.Release(); err != nil {
		t.Errorf("second Release: %v", err)
	}
}

func TestMarked(t *testing.T) {
	p := Place{Mark: 77}
	for line, want := range map[string]int{
		"1: POSIX  ADVISORY  WRITE 6925 fe:00:9978038 77 77":    6925,
		"1: POSIX  ADVISORY  READ 6925 fe:00:9978038 77 77":     0,
		"1: POSIX  ADVISORY  WRITE 6925 fe:00:9978038 77 78":    0,
		"1: POSIX  ADVISORY  WRITE 6925 fe:00:9978038 0 EOF":    0,
		"1: FLOCK  ADVISORY  WRITE 6925 fe:00:9978038 77 77":    0,
		"1: -> POSIX  ADVISORY  WRITE 6925 fe:00:9978038 77 77": 0,
		"1: POSIX  ADVISORY  WRITE -1 fe:00:9978038 77 77":      0,
		"": 0,
	} {
		if got := p.marked(line); got != want {
			t.Errorf("marked(%q) = %d, want %d", line, got, want)
		}
	}
}

// Users whose /proc hides others' processes find a holder by the state that root published. A state
// of their own names none.
func TestHiddenHolder(t *testing.T) {
	testkit.NeedRoot(t)
	p := place(t)
	dir := p.Dirs[0]
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // nobody reads the state
		t.Fatal(err)
	}
	program := filepath.Join(dir, "find")
	testkit.CopyProgram(t, program, "/proc/self/exe")
	c := other(t, p, dir)
	found := func(hidepid int) string {
		t.Helper()
		cmd := exec.Command("unshare", "--mount", "sh", "-c",
			`mount -t proc -o "hidepid=$1" proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$0"`, program, fmt.Sprint(hidepid))
		cmd.Env = append(os.Environ(), "LOCK_TEST_FIND="+dir, fmt.Sprint("LOCK_TEST_MARK=", p.Mark))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("hidepid=%d: %v: %s", hidepid, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for hidepid := range 3 {
		if got, want := found(hidepid), fmt.Sprint(c.PID()); got != want {
			t.Errorf("hidepid=%d: holder %q, want %q", hidepid, got, want)
		}
	}
	if err := os.Chown(filepath.Join(dir, stateName), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	for hidepid := 1; hidepid < 3; hidepid++ {
		if got := found(hidepid); got != "" {
			t.Errorf("hidepid=%d, a user's state: holder %q", hidepid, got)
		}
	}
}
