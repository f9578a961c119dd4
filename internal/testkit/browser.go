package testkit

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// ChromiumPage is a page in a headless Chromium. It is not safe for concurrent use.
type ChromiumPage struct {
	t    testing.TB
	to   io.WriteCloser
	from *bufio.Reader
}

// Chromium starts a browser for the length of the test, with the packages of tools/browser.sh. The
// browser accepts every certificate.
func Chromium(t testing.TB) *ChromiumPage {
	t.Helper()
	NeedTool(t, "chromium", "node")
	root, err := Repository()
	if err != nil {
		t.Fatal(err)
	}
	packages := filepath.Join(root, "bin", "browser")
	if _, err := os.Stat(filepath.Join(packages, "version")); err != nil {
		lack(t, "what drives a browser (tools/browser.sh fetches it)")
	}
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", filepath.Join(root, "test", "browser", "driver.mjs"), packages, chromium)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	p := &ChromiumPage{t: t}
	if p.to, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.from = bufio.NewReader(out)
	if err := Launch(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.to.Close() // which ends it
		_, _ = io.Copy(io.Discard, p.from)
		err := cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // for any children left
		Disown(cmd)
		if err != nil {
			t.Errorf("the browser: %v", err)
		}
	})
	return p
}

// Do runs a script: the body of an async function of page, context, args, seen, axe and until (see
// test/browser/driver.mjs). It decodes the script's result into out, unless that is nil. A failed
// script ends the test.
func (p *ChromiumPage) Do(script string, args, out any) {
	p.t.Helper()
	line, err := json.Marshal(map[string]any{"script": script, "args": args})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.to.Write(append(line, '\n')); err != nil {
		p.t.Fatalf("the browser has gone: %v", err)
	}
	if line, err = p.from.ReadBytes('\n'); err != nil {
		p.t.Fatalf("the browser has gone: %v", err)
	}
	var got struct {
		Value json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &got); err != nil {
		p.t.Fatalf("%.300s: %v", line, err)
	}
	if got.Error != "" {
		p.t.Fatalf("in the page: %s", got.Error)
	}
	if out != nil {
		if err := json.Unmarshal(got.Value, out); err != nil {
			p.t.Fatalf("%.300s: %v", got.Value, err)
		}
	}
}
