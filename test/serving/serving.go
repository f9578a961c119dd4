package serving

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/testkit"
	"ingero/sim"
)

// The programs are part of the package, so that a change of theirs makes a test run again.
//
//go:embed py
var programs embed.FS

// Server is a running server.
type Server struct {
	*testkit.Child
	Engine     int   // PID of the engine, which calls CUDA if there are no workers
	Workers    []int // PIDs
	Tokenizers []int // PIDs
	Port       int   // set by [Server.Serve]

	t     testing.TB
	env   []string
	truth string
}

// Start starts the processes of a server, which ends with the test. They make no CUDA call before
// [Server.Serve]. The options are those of py/lab/server.py, env those of the simulated GPU.
func Start(t testing.TB, stack sim.Stack, env []string, options ...string) *Server {
	t.Helper()
	s := &Server{t: t, truth: filepath.Join(t.TempDir(), "truth")}
	s.env = slices.Concat(os.Environ(), env, []string{pythonPath(t, stack)})
	s.Child = s.python("vllm.entrypoints.openai.api_server", append([]string{"--model", "lab/tiny", "--hold", "--truth", s.truth}, options...)...)
	pids := struct {
		Engine              *int
		Workers, Tokenizers *[]int
	}{&s.Engine, &s.Workers, &s.Tokenizers}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(s.Line("ready "), "ready ")), &pids); err != nil {
		t.Fatal(err)
	}
	return s
}

// pythonPath extracts the programs, and returns the variable with which Python finds them.
func pythonPath(t testing.TB, stack sim.Stack) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, programs); err != nil {
		t.Fatal(err)
	}
	return "PYTHONPATH=" + stack.Dir + ":" + filepath.Join(dir, "py")
}

// python runs a module.
func (s *Server) python(module string, args ...string) *testkit.Child {
	s.t.Helper()
	testkit.NeedTool(s.t, "python3")
	cmd := exec.Command("python3", append([]string{"-m", module}, args...)...)
	cmd.Env = s.env
	return testkit.Start(s.t, cmd)
}

// Serve lets the server start the GPU, and waits until it listens.
func (s *Server) Serve() {
	s.t.Helper()
	s.Send("go")
	port, err := strconv.Atoi(strings.TrimPrefix(s.Line("serving "), "serving "))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Port = port
}

// PIDs returns the server's processes.
func (s *Server) PIDs() []int {
	return slices.Concat([]int{s.PID(), s.Engine}, s.Workers, s.Tokenizers)
}

// Computing returns the processes that call CUDA.
func (s *Server) Computing() []int {
	if len(s.Workers) > 0 {
		return s.Workers
	}
	return []int{s.Engine}
}

// URL returns the URL of a path on the server.
func (s *Server) URL(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", s.Port, path) }

// StartLoad starts a client. The options are those of py/lab/client.py.
func (s *Server) StartLoad(options ...string) *testkit.Child {
	s.t.Helper()
	return s.python("lab.client", append([]string{"--port", strconv.Itoa(s.Port)}, options...)...)
}

// Answers waits for the end of a client, and returns its own record of the answers.
func (s *Server) Answers(client *testkit.Child) []Answer {
	s.t.Helper()
	if err := client.Wait(); err != nil {
		s.t.Fatalf("client: %v\n%s", err, client.Stderr())
	}
	var out []Answer
	s.lines([]byte(client.Stdout()), func(line []byte) error {
		out = append(out, Answer{})
		return json.Unmarshal(line, &out[len(out)-1])
	})
	return out
}

// Truth reads what the server wrote so far. A request is there before its answer ends, and a step
// before its tokens are sent.
func (s *Server) Truth() Truth {
	s.t.Helper()
	text, err := os.ReadFile(s.truth)
	if err != nil {
		s.t.Fatal(err)
	}
	var out Truth
	s.lines(text, out.add)
	return out
}

// lines calls a function for each line.
func (s *Server) lines(text []byte, add func([]byte) error) {
	s.t.Helper()
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, len(text)+1)
	for scan.Scan() {
		if err := add(scan.Bytes()); err != nil {
			s.t.Fatalf("%v: %s", err, scan.Bytes())
		}
	}
}
