package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// In a directory with the set-group-ID bit, root's recordings are readable by the directory's group
// and nobody else, during and after recording.
func TestGroupReads(t *testing.T) {
	b := newBench(t)
	const group, member, other = 54320, 54321, 54322
	dir := filepath.Join(b.dir, "shared")
	if err := errors.Join(os.Mkdir(dir, 0o750), os.Chown(dir, 0, group), os.Chmod(dir, 0o750|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	for up := b.dir; up != "/tmp" && up != "/"; up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(dir, "ingero.db")
	reads := func(uid uint32, groups ...uint32) (string, bool) {
		cmd := exec.Command("/proc/self/exe", "query", "--db", db)
		cmd.Env = append(b.env, "HOME=/nonexistent")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
		out, err := cmd.CombinedOutput()
		return string(out), err == nil && strings.Contains(string(out), "cudaLaunchKernel")
	}
	check := func(when string) {
		t.Helper()
		testkit.Eventually(t, "the group to read, "+when, func() bool { _, ok := reads(member, group); return ok })
		if out, ok := reads(other); ok {
			t.Errorf("%s: anybody reads %s", when, out)
		}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			var s unix.Stat_t
			if err := errors.Join(err, unix.Lstat(path, &s)); err != nil {
				return err
			}
			if s.Uid != 0 || s.Gid != group || s.Mode&0o040 == 0 || s.Mode&0o027 != 0 {
				t.Errorf("%s: %s: %d:%d, mode %o", when, path, s.Uid, s.Gid, s.Mode)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	loop := b.train("--steps", "100000")
	c := b.ingero("trace", "--pid", pid(loop), "--db", db)
	b.tracing(1)
	loop.Send("go")
	check("while it is recorded")
	c.Signal(syscall.SIGTERM)
	if _, stderr, code := finish(t, c); code != 0 {
		t.Fatalf("code %d: %s", code, stderr)
	}
	check("afterwards")
}
