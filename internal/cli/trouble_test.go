package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/testkit"
)

// symptoms maps the titles of entries in docs/guides/troubleshooting.md to functions that cause
// the symptom and return ingero's output.
var symptoms = map[string]func(b *bench) string{
	"Nothing has been recorded":            func(b *bench) string { return b.says("explain") },
	"The process is not there":             func(b *bench) string { return b.says("trace", "--pid", "4194305") },
	"No calls come from a process":         func(b *bench) string { return b.says("check", "--pid", fmt.Sprint(os.Getpid())) },
	"Tracing is not permitted":             (*bench).asNobody,
	"Another trace is already running":     (*bench).tracedAlready,
	"ingero runs in its own PID namespace": (*bench).inItsNamespace,
	"The disk is full":                     (*bench).fullDisk,
	"There was no recording at that time": func(b *bench) string {
		return b.says("explain", "--from", "2020-01-01 15:40", "--to", "2020-01-01 15:45", "--db", testDB(b.t))
	},
	"The file is not a database": func(b *bench) string {
		b.write("notes.db", "these are my notes, and no database at all\n")
		return b.says("explain", "--db", filepath.Join(b.dir, "notes.db"))
	},
	"The calls are missing from the database": func(b *bench) string {
		db := testDB(b.t)
		if err := os.RemoveAll(db + ".d"); err != nil {
			b.t.Fatal(err)
		}
		return b.says("query", "--calls", "--db", db)
	},
	"A query times out": func(b *bench) string {
		return b.says("query", "--db", testDB(b.t), "--timeout", "50ms",
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")
	},
	"A setting has no effect": func(b *bench) string {
		b.write("ingero.yaml", "trace:\n  stak: all\n")
		return b.says("config", "check", filepath.Join(b.dir, "ingero.yaml"))
	},
	"Network clients cannot connect": func(b *bench) string { return b.says("dashboard", "--db", testDB(b.t), "--addr", "0.0.0.0:8080") },
	"The port is in use":             (*bench).takenPort,
	"A certificate is not trusted": func(b *bench) string {
		s := serve(b.t, testDB(b.t), nil, nil, "--addr", "127.0.0.1:0")
		return b.says("query", "--nodes", strings.TrimPrefix(s.url, "https://"))
	},
	"ingero cannot tell what hangs": func(b *bench) string { return b.says("stuck") },
	"There is no GPU":               func(b *bench) string { return b.says("demo", "incident", "--gpu") },
}

// Each entry of the document has a symptom here, whose output has the lines that the entry shows;
// "..." matches anything.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile("../../docs/guides/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string]bool{}
	for _, entry := range strings.Split(string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(entry, "\n")
		reported[title] = true
		t.Run(title, func(t *testing.T) {
			makeIt := symptoms[title]
			if makeIt == nil {
				t.Fatal("nothing makes this symptom")
			}
			said := makeIt(newBench(t))
			lines := 0
			for line := range strings.Lines(body) {
				shown, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
				if !is || strings.HasPrefix(shown, "$ ") {
					continue
				}
				lines++
				parts := strings.Split(strings.TrimSpace(shown), "...")
				for i := range parts {
					parts[i] = regexp.QuoteMeta(parts[i])
				}
				if !regexp.MustCompile(`(?m)^\s*` + strings.Join(parts, ".*") + `$`).MatchString(said) {
					t.Errorf("it does not say %q but:\n%s", shown, said)
				}
			}
			if lines < 2 {
				t.Errorf("the entry shows %d lines of what is said", lines)
			}
		})
	}
	for title := range symptoms {
		if !reported[title] {
			t.Errorf("the document has no entry %q", title)
		}
	}
}

// says runs a command to its end.
func (b *bench) says(args ...string) string {
	b.t.Helper()
	stdout, stderr, _ := b.output(args...)
	return stdout + stderr
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) asNobody() string {
	dir, err := os.MkdirTemp("", "ingero-trouble-")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "ingero")
	if err := os.Chmod(dir, 0o777); err != nil {
		b.t.Fatal(err)
	}
	testkit.CopyProgram(b.t, program, "/proc/self/exe")
	cmd := exec.Command(program, "trace", "--pid", fmt.Sprint(os.Getpid()), "--db", filepath.Join(dir, "x.db"))
	_, variable := testLock(dir)
	cmd.Env = append(os.Environ(), variable)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	stdout, stderr, _ := finish(b.t, testkit.Start(b.t, cmd))
	return stdout + stderr
}

func (b *bench) tracedAlready() string {
	target := b.train("--seconds", "60")
	target.Send("go")
	c := b.ingero("trace", "--record=false", "--pid", pid(target))
	b.tracing(1)
	said := b.says("trace", "--record=false", "--pid", pid(target))
	c.Signal(syscall.SIGINT)
	finish(b.t, c)
	return said
}

func (b *bench) inItsNamespace() string {
	cmd := exec.Command("/proc/self/exe", "trace", "--record=false", "--duration", "100ms")
	cmd.Env = b.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	stdout, stderr, _ := finish(b.t, testkit.Start(b.t, cmd))
	return stdout + stderr
}

func (b *bench) fullDisk() string {
	c := b.fillDisk()
	var said string
	testkit.Eventually(b.t, "status to tell of the disk", func() bool {
		said = b.says("status")
		return strings.Contains(said, "not recording")
	})
	c.Signal(syscall.SIGINT)
	_, stderr, _ := finish(b.t, c)
	return said + stderr
}

func (b *bench) takenPort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return b.says("dashboard", "--db", testDB(b.t), "--addr", l.Addr().String())
}
