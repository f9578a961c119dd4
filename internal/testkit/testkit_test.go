package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// record is a fake test, to observe failing checks.
type record struct {
	testing.TB
	cleanups []func()
	failed   []string
	skipped  string
}

type stop struct{}

func (r *record) Helper()                   {}
func (r *record) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *record) Failed() bool              { return len(r.failed) > 0 }
func (r *record) Error(args ...any)         { r.failed = append(r.failed, fmt.Sprint(args...)) }
func (r *record) Logf(string, ...any)       {}
func (r *record) Fatal(args ...any)         { r.Error(args...); panic(stop{}) }
func (r *record) Skip(args ...any)          { r.skipped = fmt.Sprint(args...); panic(stop{}) }
func (r *record) Errorf(f string, a ...any) { r.Error(fmt.Sprintf(f, a...)) }
func (r *record) Fatalf(f string, a ...any) { r.Fatal(fmt.Sprintf(f, a...)) }

// run runs f as a test and returns its record.
func run(t *testing.T, f func(testing.TB)) *record {
	t.Helper()
	r := &record{TB: t}
	func() {
		defer func() {
			if v := recover(); v != nil && v != (stop{}) {
				panic(v)
			}
		}()
		f(r)
	}()
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return r
}

// A missing tool skips a test on a developer's machine and fails it in CI.
func TestNeedTool(t *testing.T) {
	need := func(t testing.TB) { NeedTool(t, "sh", "no-such-tool") }
	t.Setenv("CI", "")
	if r := run(t, need); !strings.HasPrefix(r.skipped, "needs no-such-tool") || r.Failed() {
		t.Errorf("without CI: skipped %q, failed %q", r.skipped, r.failed)
	}
	t.Setenv("CI", "true")
	if r := run(t, need); !r.Failed() || r.skipped != "" {
		t.Errorf("in CI: skipped %q, failed %q", r.skipped, r.failed)
	}
	if r := run(t, func(t testing.TB) { NeedTool(t, "sh") }); r.Failed() || r.skipped != "" {
		t.Errorf("tool present: skipped %q, failed %q", r.skipped, r.failed)
	}
}

// LeakCheck reports a remaining goroutine, file or BPF map, and accepts a test that cleans up.
func TestLeakCheck(t *testing.T) {
	t.Run("clean", func(t *testing.T) {
		if r := run(t, func(t testing.TB) { LeakCheck(t) }); r.Failed() {
			t.Errorf("reported %q", r.failed)
		}
	})
	t.Run("file", func(t *testing.T) {
		r := run(t, func(tb testing.TB) {
			leakCheck(tb, 0)
			f, err := os.Open("/dev/zero")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
		})
		if !strings.Contains(strings.Join(r.failed, ""), "/dev/zero") {
			t.Errorf("reported %q", r.failed)
		}
	})
	t.Run("goroutine", func(t *testing.T) {
		end := make(chan struct{})
		t.Cleanup(func() { close(end) })
		r := run(t, func(tb testing.TB) {
			leakCheck(tb, 0)
			go func() { <-end }()
		})
		if !strings.Contains(strings.Join(r.failed, ""), "TestLeakCheck") {
			t.Errorf("reported %q", r.failed)
		}
	})
	t.Run("map", func(t *testing.T) {
		NeedBPF(t)
		r := run(t, func(tb testing.TB) {
			leakCheck(tb, 0)
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = m.Close() })
		})
		if !strings.Contains(strings.Join(r.failed, ""), "map_id") {
			t.Errorf("reported %q", r.failed)
		}
	})
}

// A child's output is read as it comes, its input reaches it, and its whole process group is gone
// after the test.
func TestStart(t *testing.T) {
	var child *Child
	t.Run("child", func(t *testing.T) {
		child = Start(t, exec.Command("sh", "-c", "sleep 1000 & echo pid $!; read a; echo got $a; echo err >&2; wait"))
		child.Line("pid ")
		child.Send("word")
		if got, want := child.Line("got"), "got word"; got != want {
			t.Errorf("got line %q, want %q", got, want)
		}
		Eventually(t, "standard error", func() bool { return child.Stderr() == "err\n" })
	})
	pid := strings.TrimPrefix(strings.SplitN(child.Stdout(), "\n", 2)[0], "pid ")
	Eventually(t, "the grandchild's end", func() bool {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// Wait returns how the child ended.
func TestWait(t *testing.T) {
	child := Start(t, exec.Command("sh", "-c", "echo a; exit 3"))
	if err := child.Wait(); err == nil || err.Error() != "exit status 3" {
		t.Errorf("got %v, want exit status 3", err)
	}
	if got, want := child.Stdout(), "a\n"; got != want {
		t.Errorf("got stdout %q, want %q", got, want)
	}
}

// A different golden file fails the test, with the place of the difference.
func TestGolden(t *testing.T) {
	t.Chdir(Tree(t, map[string]string{"testdata/a.txt": "one\n"}))
	if r := run(t, func(t testing.TB) { Golden(t, "a.txt", "one\n") }); r.Failed() {
		t.Errorf("same text: reported %q", r.failed)
	}
	r := run(t, func(t testing.TB) { Golden(t, "a.txt", "two\n") })
	if !strings.Contains(strings.Join(r.failed, ""), "testdata/a.txt differs") {
		t.Errorf("other text: reported %q", r.failed)
	}
}

// A file of facts is parsed with its escapes, and errors have the line number.
func TestParseFacts(t *testing.T) {
	const head = "# about\nsource\tinput\texpectation\n"
	facts, err := ParseFacts("x.tsv", head+"o/r#1\ta\\tb\\n\\\\\\xe8c\tcode=13 msg~\"a \\\"b\\\"\" pid=-\n")
	if err != nil || len(facts) != 1 || facts[0].Input != "a\tb\n\\\xe8c" || len(facts[0].Want) != 3 || facts[0].Want[1] != (Want{"msg", `a "b"`, true}) || facts[0].At != "x.tsv:3" {
		t.Errorf("got %+v, %v", facts, err)
	}
	for _, row := range []string{"o/r#1\ta", "my machine\ta\tb=c", "o/r#1\t\\q\tb=c", "o/r#1\t\\x1\tb=c", "o/r#1\ta\\\tb=c", "o/r#1\ta\tb", "o/r#1\ta\t", "o/r#1\t\xff\tb=c"} {
		if facts, err := ParseFacts("x.tsv", head+row+"\n"); err == nil {
			t.Errorf("%q: got %+v", row, facts)
		}
	}
}
