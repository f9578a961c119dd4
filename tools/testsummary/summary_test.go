package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

// results runs go test -json on a module made of the given test bodies, one
// package each, and returns what the summary makes of it.
func results(t *testing.T, bodies map[string]string) *summary {
	t.Helper()
	files := map[string]string{"go.mod": "module m\n\ngo 1.26\n"}
	for pkg, body := range bodies {
		files[pkg+"/a_test.go"] = "package " + pkg + "\n\nimport \"testing\"\n\n" + body
	}
	dir := testkit.Tree(t, files)
	cmd := exec.Command("go", "test", "-json", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, _ := cmd.Output() // its exit status is among what is summed up
	s := newSummary(&bytes.Buffer{})
	if err := s.read(bytes.NewReader(out)); err != nil {
		t.Fatal(err)
	}
	return s
}

// The real output of go test, for each way a test or package can end, is counted
// and judged.
func TestReport(t *testing.T) {
	const pass = "func TestA(t *testing.T) {}\n"
	tests := []struct {
		name   string
		bodies map[string]string
		skips  string
		ci     bool
		ok     bool
		last   string
		says   string
	}{
		{"pass", map[string]string{"a": pass, "b": pass}, "", true, true,
			"2 passed, 0 failed, 0 skipped", ""},
		{"fail", map[string]string{"a": `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Error("got 1") }) }`}, "", false, false,
			"0 passed, 2 failed, 0 skipped", "got 1"},
		{"panic", map[string]string{"a": `func TestA(t *testing.T) { panic("lost") }`}, "", false, false,
			"0 passed, 1 failed, 0 skipped", "panic: lost"},
		{"exit", map[string]string{"a": "import \"os\"\nfunc TestA(t *testing.T) { println(`gone`); os.Exit(3) }"}, "", false, false,
			"0 passed, 1 failed, 0 skipped", "gone"},
		{"exit after a failure", map[string]string{"a": "import \"os\"\nfunc TestA(t *testing.T) { t.Error(1) }\nfunc TestB(t *testing.T) { println(`gone`); os.Exit(3) }"}, "", false, false,
			"0 passed, 2 failed, 0 skipped", "gone"},
		{"no build", map[string]string{"a": `func TestA(t *testing.T) { return 1 }`, "b": pass}, "", false, false,
			"1 passed, 1 failed, 0 skipped", "too many return values"},
		{"skip at home", map[string]string{"a": `func TestA(t *testing.T) { t.Skip("needs root") }`, "b": pass}, "", false, true,
			"1 passed, 0 failed, 1 skipped", "m/a.TestA: needs root"},
		{"skip in CI", map[string]string{"a": `func TestA(t *testing.T) { t.Skip("needs root") }`, "b": pass}, "", true, false,
			"1 passed, 0 failed, 1 skipped", "not in the list of skips"},
		{"listed skip", map[string]string{"a": `func TestA(t *testing.T) { t.Skip("needs root") }`, "b": pass}, "m/a.TestA needs root", true, true,
			"1 passed, 0 failed, 1 skipped", ""},
		{"other reason", map[string]string{"a": `func TestA(t *testing.T) { t.Skip("needs a rest") }`, "b": pass}, "m/a.TestA needs root", true, false,
			"1 passed, 0 failed, 1 skipped", "gives another reason"},
		{"odd reason", map[string]string{"a": `func TestA(t *testing.T) { t.Skip("later") }`, "b": pass}, "", false, false,
			"1 passed, 0 failed, 1 skipped", "does not start"},
		{"nothing", map[string]string{"a": "var _ testing.T\n"}, "", false, false,
			"0 passed, 0 failed, 0 skipped", "no test ran"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			allowed, err := parseSkips(strings.NewReader(test.skips))
			if err != nil {
				t.Fatal(err)
			}
			s := results(t, test.bodies)
			out := &bytes.Buffer{}
			s.out = out
			if ok := s.report(allowed, test.ci); ok != test.ok {
				t.Errorf("got ok %v, want %v", ok, test.ok)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if last := lines[len(lines)-1]; last != test.last {
				t.Errorf("got last line %q, want %q", last, test.last)
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("does not say %q:\n%s", test.says, out)
			}
		})
	}
}

// A line of the list without a reason is refused.
func TestParseSkips(t *testing.T) {
	if _, err := parseSkips(strings.NewReader("# a\n\nm/a.TestA\n")); err == nil {
		t.Error("got no error for a skip without a reason")
	}
}
