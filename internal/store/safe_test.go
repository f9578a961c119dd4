package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingero/internal/store/segment"
	"ingero/internal/store/storetest"
	"ingero/internal/testkit"
)

const person = 54321 // an otherwise unused uid

// Under sudo, all files and directories belong to the person, during and after the recording.
func TestFilesBelongToTheOwner(t *testing.T) {
	testkit.NeedRoot(t)
	home := filepath.Join(t.TempDir(), "home")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, person, person)); err != nil {
		t.Fatal(err)
	}
	db, c := open(t, filepath.Join(home, ".ingero", "ingero.db"), Options{Owner: &Owner{person, person}})
	c.advance(time.Second)
	if err := db.Tick(storetest.NewKernel().Tick(1, c.now, false)); err != nil {
		t.Fatal(err)
	}
	check := func(when string, least int) {
		t.Helper()
		n := 0
		err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var s unix.Stat_t
			if err := unix.Lstat(path, &s); err != nil {
				return err
			}
			if n++; s.Uid != person || s.Gid != person || s.Mode&0o077 != 0 {
				t.Errorf("%s, %s: owner %d:%d, mode %o", when, path, s.Uid, s.Gid, s.Mode&0o7777)
			}
			return nil
		})
		if err != nil || n < least {
			t.Errorf("%s: %d files (%v)", when, n, err)
		}
	}
	check("while recording", 9) // home, .ingero, db, -wal, -shm, .d, writer, spare, log
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	check("afterwards", 6)
}

func TestRootRefusesWhatOthersCouldChange(t *testing.T) {
	testkit.NeedRoot(t)
	victim := filepath.Join(t.TempDir(), "victim")
	for _, tt := range []struct {
		name    string
		prepare func(dir string) (path string, err error)
	}{
		{"everybody's directory", func(dir string) (string, error) {
			return dir + "/x.db", os.Chmod(dir, 0o777)
		}},
		{"everybody's sticky directory", func(dir string) (string, error) {
			return dir + "/x.db", os.Chmod(dir, 0o777|os.ModeSticky)
		}},
		{"everybody's directory above", func(dir string) (string, error) {
			return dir + "/sub/x.db", os.Chmod(dir, 0o777)
		}},
		{"another's directory", func(dir string) (string, error) {
			return dir + "/x.db", os.Chown(dir, person, person)
		}},
		{"another's directory above", func(dir string) (string, error) {
			return dir + "/sub/x.db", os.Chown(dir, person, person)
		}},
		{"another's link to a directory", func(dir string) (string, error) {
			return dir + "/link/x.db", errors.Join(os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/link"), os.Lchown(dir+"/link", person, person))
		}},
		{"link for the file", func(dir string) (string, error) {
			return dir + "/x.db", os.Symlink(victim, dir+"/x.db")
		}},
		{"second name for the file", func(dir string) (string, error) {
			return dir + "/x.db", errors.Join(os.WriteFile(dir+"/other", nil, 0o600), os.Link(dir+"/other", dir+"/x.db"))
		}},
		{"another's file", func(dir string) (string, error) {
			return dir + "/x.db", errors.Join(os.WriteFile(dir+"/x.db", nil, 0o600), os.Chown(dir+"/x.db", person, person))
		}},
		{"pipe for the file", func(dir string) (string, error) {
			return dir + "/x.db", unix.Mkfifo(dir+"/x.db", 0o600)
		}},
		{"link for the lock", func(dir string) (string, error) {
			return dir + "/x.db", errors.Join(os.Mkdir(dir+"/x.db.d", 0o700), os.Symlink(victim, dir+"/x.db.d/writer"))
		}},
		{"everybody's directory of logs", func(dir string) (string, error) {
			return dir + "/x.db", errors.Join(os.Mkdir(dir+"/x.db.d", 0o700), os.Chmod(dir+"/x.db.d", 0o777))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(victim, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			path, err := tt.prepare(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			var unsafe *UnsafeError
			if db, err := Open(Options{Path: path}); !errors.As(err, &unsafe) {
				t.Errorf("error %v, want an UnsafeError", err)
				if db != nil {
					_ = db.Close()
				}
			}
			if s, err := os.Stat(victim); err != nil || s.Size() != 0 {
				t.Errorf("the victim was written to: %v, %v", s, err)
			}
		})
	}
}

// SQLite opens its own files; it must not follow a planted link.
func TestLinkForTheWriteAheadLogIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	path := filepath.Join(dir, "x.db")
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Symlink(victim, path+"-wal")); err != nil {
		t.Fatal(err)
	}
	if db, err := Open(Options{Path: path}); err == nil {
		t.Error("the database was opened, want an error")
		_ = db.Close()
	}
	if s, err := os.Stat(victim); err != nil || s.Size() != 0 {
		t.Errorf("the victim was written to: %v, %v", s, err)
	}
}

func TestLinksOfRootAreFollowed(t *testing.T) {
	testkit.NeedRoot(t)
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/real", 0o700), os.Symlink("real", dir+"/one"), os.Symlink(dir+"/one", dir+"/two")); err != nil {
		t.Fatal(err)
	}
	db, _ := open(t, dir+"/two/sub/x.db", Options{})
	if want := dir + "/real/sub/x.db"; db.Path() != want {
		t.Errorf("path = %s, want %s", db.Path(), want)
	}
	if err := os.Symlink("loop", dir+"/loop"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: dir + "/loop/x.db"}); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link to itself: %v", err)
	}
}

func TestPathsWithOddCharacters(t *testing.T) {
	for _, name := range []string{"a b.db", "what?mode=ro.db", "100%.db", "#1.db", "ünï.db"} {
		path := filepath.Join(t.TempDir(), name)
		db, _ := open(t, path, Options{})
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestSessionIDsAreSafeNames(t *testing.T) {
	for _, node := range []string{"", "gpu-7", "../../etc", "a/b c\x00", fmt.Sprintf("%0200d", 7)} {
		id := newID(&segment.Session{Node: node, Started: storetest.Began})
		if id != filepath.Base(id) || id[0] == '.' || len(id) > 100 || id == newID(&segment.Session{Node: node, Started: storetest.Began}) {
			t.Errorf("node %q: id %q", node, id)
		}
	}
}
