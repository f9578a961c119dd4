package cli

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingero/internal/query"
	"ingero/internal/store/segment"
	"ingero/internal/testkit"
)

const secret = "Zq9vX7Lm"

// secretArguments and secretEnvironment hold secrets in the usual forms.
var secretArguments = []string{"--hf-token", secret, "--db_password=" + secret, "key=" + secret, "-H", "Authorization: Bearer " + secret, "https://me:" + secret + "@host/x"}

var secretEnvironment = []string{"HF_TOKEN=" + secret, "AWS_SECRET_ACCESS_KEY=" + secret, "MASTER_ADDR=me:" + secret + "@host", "RANK=1"}

// recordSecrets records a shell and its training loop, with a hog on their CPU. All of them have
// secrets. It returns what was printed.
func (b *bench) recordSecrets(mode string) (printed string) {
	b.t.Helper()
	cpu, err := lastCPU()
	if err != nil {
		b.t.Fatal(err)
	}
	hog := testkit.Start(b.t, exec.Command("taskset", append([]string{"-c", fmt.Sprint(cpu), "sh", "-c", "echo up; while :; do :; done", "hog"}, secretArguments...)...))
	hog.Line("up")
	cmd := exec.Command("/proc/self/exe", append([]string{"run", "--max-overhead", "0", "--debug", "--json", "--cmdline=" + mode, "--output", filepath.Join(b.dir, "out.jsonl"), "--", "sh", "-c",
		fmt.Sprintf(`"$0" --hold --pin %d --steps 100 --cpu-us 2000; exit 0`, cpu), b.stack.Program("train")}, secretArguments...)...)
	cmd.Env = append(b.env, secretEnvironment...)
	c := testkit.Start(b.t, cmd)
	state := b.tracing(2) // the shell and the loop
	c.Send("go")
	stdout, stderr, code := finish(b.t, c)
	hog.Signal(syscall.SIGKILL)
	if code != 0 {
		b.t.Fatalf("code %d:\n%s", code, stderr)
	}
	return fmt.Sprintf("%+v", state) + stdout + stderr
}

// everything returns all traces of a recording: its files, raw and decompressed, the output of
// commands, and its exports.
func (b *bench) everything() map[string]string {
	b.t.Helper()
	all := map[string]string{"log": b.log()}
	for _, command := range [][]string{
		{"explain"}, {"explain", "--json", "--per-process"}, {"explain", "--chains", "--json"}, {"query", "--json"}, {"query", "--calls", "--json"},
		{"query", "SELECT * FROM processes", "--json"}, {"query", "SELECT * FROM chains", "--json"}, {"query", "SELECT * FROM sessions", "--json"},
		{"export", "-o", filepath.Join(b.dir, "x.csv")}, {"export", "-o", filepath.Join(b.dir, "x.parquet")}, {"export", "-o", filepath.Join(b.dir, "x.sqlite")},
		{"backup", "-o", filepath.Join(b.dir, "copy.db")},
	} {
		stdout, stderr, code := b.output(command...)
		if code != 0 {
			b.t.Errorf("%v: code %d:\n%s", command, code, stderr)
		}
		all[strings.Join(command, " ")] = stdout + stderr
	}
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, filepath.Join(b.dir, "sim")) {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// log returns the content of the segments as text.
func (b *bench) log() string {
	b.t.Helper()
	r, err := query.Open(b.t.Context(), b.db())
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	s, err := r.Session(b.t.Context(), "")
	if err != nil {
		b.t.Fatal(err)
	}
	log, err := r.OpenLog(&s)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	var out bytes.Buffer
	var e segment.Entry
	for log.Next(&e) == nil {
		if e.Process != nil {
			fmt.Fprintf(&out, "process %+v\n", *e.Process)
		}
		if e.Other != nil {
			fmt.Fprintf(&out, "other %+v\n", *e.Other)
		}
		if e.Report != nil {
			fmt.Fprintf(&out, "report %+v\n", *e.Report)
		}
	}
	return out.String()
}

// Passwords and tokens of processes are not stored, printed or exported unless requested; other
// arguments are.
func TestSecretsAreNotKept(t *testing.T) {
	for mode, want := range map[string]struct {
		secret bool
		line   string // of the loop's shell
	}{
		"safe": {false, "--hf-token ***"},
		"off":  {false, ""},
		"full": {true, "--hf-token " + secret},
	} {
		t.Run(mode, func(t *testing.T) {
			b := newBench(t)
			printed := b.recordSecrets(mode)
			all := b.everything()
			all["printed"] = printed
			found := map[string]bool{}
			for where, text := range all {
				found[where] = strings.Contains(text, secret)
				if found[where] && !want.secret {
					at := strings.Index(text, secret)
					t.Errorf("%s has the secret: %q", where, text[max(0, at-100):min(len(text), at+50)])
				}
			}
			for _, where := range []string{"log", "query SELECT * FROM processes --json", b.db(), filepath.Join(b.dir, "out.jsonl")} {
				if want.secret && !found[where] {
					t.Errorf("%s has no command lines: the test would not find a secret in it", where)
				}
			}
			log := all["log"]
			if !strings.Contains(log, want.line) || !strings.Contains(log, "Rank:1") && !strings.Contains(log, `Rank:"1"`) {
				t.Errorf("the log lacks %q or the rank:\n%s", want.line, log)
			}
			if hog := strings.Contains(log, " hog --hf-token"); hog != (mode != "off") {
				t.Errorf("the hog's command line is reported: %v:\n%s", hog, log)
			}
		})
	}
}
