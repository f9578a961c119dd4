package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// suite is the run of one test binary.
type suite struct {
	Package string   `json:"package"`
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed"`
	Skipped []string `json:"skipped"` // with their reasons
	Seconds float64  `json:"seconds"`
	Output  string   `json:"output,omitempty"` // output of failed tests
}

// suites runs every test binary of the bundle in its package's directory, laid out as in the
// repository.
func (l *lab) suites() error {
	found, err := filepath.Glob(filepath.Join(l.dir, "tests", "internal", "*", "test"))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("%s holds no tests", l.dir)
	}
	for _, path := range found {
		s := l.suite(path)
		if len(s.Failed) > 0 {
			l.fail("%s: %s", s.Package, strings.Join(s.Failed, ", "))
		}
		l.r.Suite = append(l.r.Suite, s)
	}
	return nil
}

func (l *lab) suite(path string) suite {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	start := time.Now()
	cmd := exec.CommandContext(ctx, path, "-test.v", "-test.timeout=9m")
	cmd.Dir = filepath.Dir(path)
	cmd.Env = append(os.Environ(), "CI=") // the tests find their libraries themselves
	if !l.sim {
		cmd.Env = append(cmd.Env, "INGERO_GPU=1")
	}
	out, err := cmd.CombinedOutput()
	s := parse(string(out))
	s.Package = filepath.Base(filepath.Dir(path))
	s.Seconds = time.Since(start).Seconds()
	if err != nil && len(s.Failed) == 0 {
		s.Failed = append(s.Failed, err.Error())
	}
	if len(s.Failed) > 0 {
		s.Output = string(out)
	}
	if s.Passed+len(s.Failed) == 0 && len(s.Skipped) == 0 {
		s.Failed = append(s.Failed, "no test ran")
	}
	return s
}

var (
	verdict = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)
	logged  = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)
)

// parse parses the output of a test binary with -test.v.
func parse(out string) suite {
	s := suite{Failed: []string{}, Skipped: []string{}}
	reason := ""
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if m := logged.FindStringSubmatch(line); m != nil {
			reason = m[1]
			continue
		}
		m := verdict.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		switch m[1] {
		case "PASS":
			s.Passed++
		case "FAIL":
			s.Failed = append(s.Failed, m[2])
		case "SKIP":
			s.Skipped = append(s.Skipped, m[2]+": "+reason)
		}
	}
	return s
}

// python reports whether python3 exists and can import a module.
func python(env []string, module string) bool {
	cmd := exec.Command("python3", "-c", "import "+module)
	cmd.Env = env
	return cmd.Run() == nil
}
