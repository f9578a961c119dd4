package serving

import (
	"bufio"
	"bytes"
	_ "embed" // the schedule's tests
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingero/internal/proc"
	"ingero/internal/redact"
	"ingero/internal/testkit"
	"ingero/internal/tick"
	"ingero/internal/where"
)

//go:embed testdata/scheduler.py
var schedule string

// The schedule follows its rules, step by step, and a batch is padded to the next graph.
func TestSchedule(t *testing.T) {
	testkit.NeedTool(t, "python3")
	cmd := exec.Command("python3", "-")
	cmd.Stdin = strings.NewReader(schedule)
	cmd.Env = append(os.Environ(), "INGERO_SIM_ZERO=1", pythonPath(t, extract(t)))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// ingero recognizes the processes as vLLM's before they call CUDA.
func TestProcesses(t *testing.T) {
	s := Start(t, extract(t), nil, "--tokenizers", "1", "--port", "0")
	testkit.Eventually(t, "titles", func() bool {
		return slices.Equal(roles(t, s), []string{"vLLM server for lab/tiny on port 0", "vLLM scheduler for lab/tiny", "vLLM for lab/tiny"})
	})
}

// The engine's workers call CUDA, each on its own GPU, and the engine does not.
func TestWorkers(t *testing.T) {
	s := Start(t, extract(t), nil, "--tensor-parallel-size", "2", "--tokenizers", "1", "--port", "0")
	testkit.Eventually(t, "titles", func() bool {
		return slices.Equal(roles(t, s), []string{"vLLM server for lab/tiny on port 0, tensor parallel 2", "vLLM scheduler for lab/tiny, tensor parallel 2",
			"vLLM worker for lab/tiny, tensor parallel rank 0 of 2", "vLLM worker for lab/tiny, tensor parallel rank 1 of 2", "vLLM for lab/tiny, tensor parallel 2"})
	})
	s.Serve()
	for _, pid := range s.PIDs() {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err != nil {
			t.Fatal(err)
		}
		if loaded := bytes.Contains(maps, []byte("libcudart")); loaded != slices.Contains(s.Workers, pid) {
			t.Errorf("process %d has loaded CUDA: %v", pid, loaded)
		}
	}
}

// The processes end with each other: with the API server if it is killed, and with the engine.
func TestEnd(t *testing.T) {
	stack := extract(t)
	for name, pid := range map[string]func(*Server) int{"server": func(s *Server) int { return s.PID() }, "engine": func(s *Server) int { return s.Engine }} {
		t.Run(name, func(t *testing.T) {
			s := Start(t, stack, nil)
			s.Serve()
			if err := syscall.Kill(pid(s), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "the end of all processes", func() bool {
				return !slices.ContainsFunc(s.PIDs(), func(pid int) bool {
					p, err := proc.FS{}.Process(uint32(pid))
					return !errors.Is(err, proc.ErrExited) && !p.Zombie
				})
			})
		})
	}
}

// roles returns what ingero says about each process.
func roles(t *testing.T, s *Server) (out []string) {
	t.Helper()
	var all []tick.Process
	for _, pid := range s.PIDs() {
		p, err := proc.FS{}.Process(uint32(pid))
		program, err2 := proc.FS{}.Program(uint32(pid), nil)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		all = append(all, tick.Process{PID: p.PID, PPID: p.PPID, Where: tick.Where{Cmdline: redact.Safe.Line(program.Args)}})
	}
	engines := where.Engines(all)
	for i := range all {
		e := engines[all[i].PID]
		out = append(out, where.EngineText(&e))
	}
	return out
}

// The headers of a stream are sent while the engine has not computed anything.
func TestHeadersComeFirst(t *testing.T) {
	s := Start(t, extract(t), nil)
	s.Serve()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := syscall.Kill(s.Engine, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const body = `{"prompt_tokens":3,"max_tokens":2,"stream":true}`
	if _, err := fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\ncontent-length: %d\r\n\r\n%s", len(body), body); err != nil {
		t.Fatal(err)
	}
	var head []byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		part := make([]byte, 1024)
		n, err := c.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		head = append(head, part[:n]...)
	}
	if bytes.Count(head, []byte("\r\n\r\n")) != 1 || !bytes.HasPrefix(head, []byte("HTTP/1.1 200 OK\r\n")) {
		t.Errorf("got %q", head)
	}
	if err := syscall.Kill(s.Engine, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	events := 0
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: [DONE]") {
			break
		}
		if strings.HasPrefix(line, "data: ") {
			events++
		}
	}
	if events != 2 {
		t.Errorf("%d events", events)
	}
}

// One connection serves requests of every kind. A client that goes away leaves nothing behind.
func TestHTTP(t *testing.T) {
	s := Start(t, extract(t), nil)
	s.Serve()
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/health", "", "", 200},
		{"/other", "", `{"error":{"message":"Not Found"}}`, 404},
		{"/v1/completions", `{"prompt":"one two"}`, `"finish_reason": "length"`, 200},
		{"/v1/completions", `{"prompt_tokens":2,"max_tokens":3}`, `" tok tok tok"`, 200},
		{"/v1/completions", `{"prompt_tokens":2,"max_tokens":3,"stream":true}`, "data: [DONE]\n\n", 200},
		{"/v1/completions", `{"prompt":""}`, "no prompt", 400},
		{"/v1/completions", `{"prompt":"one","max_tokens":16384}`, "too many tokens", 400},
		{"/v1/completions", `[`, "no prompt", 400},
	} {
		method := map[bool]string{true: "POST", false: "GET"}[c.body != ""]
		status, body := ask(t, method, s.URL(c.path), c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: got %d %s", c.path, c.body, status, body)
		}
	}
	answer, err := http.Post(s.URL("/v1/completions"), "application/json", strings.NewReader(`{"prompt":"one","max_tokens":16000,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil { // long before the last token
		t.Fatal(err)
	}
	testkit.Eventually(t, "the end of the request", func() bool {
		m := metrics(t, s)
		return m[`vllm:request_success_total abort`] == 1 && m["vllm:num_requests_running"] == 0 && m["vllm:kv_cache_usage_perc"] == 0
	})
	var finished []string
	for _, r := range s.Truth().Requests {
		finished = append(finished, r.Finished)
	}
	if diff := cmp.Diff([]string{"length", "length", "length", "abort"}, finished); diff != "" {
		t.Error(diff)
	}
}

// ask sends a request and returns the answer.
func ask(t *testing.T, method, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b)
}
