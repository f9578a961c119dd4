package inference

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// Only processes that take requests are read, on loopback addresses and the port of their metrics.
func TestTargets(t *testing.T) {
	for cmdline, want := range map[string]string{
		"vllm serve m": "http://localhost:8000/metrics",
		"vllm serve m --host 10.0.0.5 --port 9000":                          "http://localhost:9000/metrics",
		"python3 -m sglang.launch_server --model-path m":                    "http://localhost:30000/metrics",
		"trtllm-serve serve m":                                              "http://localhost:8000/prometheus/metrics",
		"text-generation-router --port 80":                                  "http://localhost:80/metrics",
		"llama-server -m m.gguf":                                            "http://localhost:8080/metrics",
		"tritonserver --model-repository /m":                                "http://localhost:8002/metrics",
		"tritonserver --model-repository /m --metrics-port=9002":            "http://localhost:9002/metrics",
		"tritonserver --http-port 8010 --metrics-port 9002 --model-store m": "http://localhost:9002/metrics",
		"ollama serve":                        "",
		"VLLM::Worker_TP0":                    "",
		"text-generation-server serve m":      "",
		"trtllm-serve disaggregated -c x.yml": "",
		"python3 train.py --port 8000":        "",
	} {
		server := []tick.Process{{PID: 7, PPID: 1, Where: tick.Where{Cmdline: cmdline}}}
		if got := targets(nil, server); len(got) > 0 {
			t.Errorf("%s: a server of no traced job: %+v", cmdline, got)
		}
		got := targets(server, nil)
		if want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].url != want || got[0].pid != 7 || got[0].namespace != 7 {
			t.Errorf("%s: %+v, want %q", cmdline, got, want)
		}
	}
	ended := tick.Process{PID: 7, Ended: time.Unix(1, 0), Where: tick.Where{Cmdline: "vllm serve m"}}
	if got := targets([]tick.Process{ended}, nil); len(got) > 0 {
		t.Errorf("an ended server: %+v", got)
	}
}

// Only loopback addresses are reached in the namespace of a server.
func TestOnlyLoopback(t *testing.T) {
	for _, address := range []string{"10.0.0.5:8000", "example.com:80", "169.254.169.254:80", "127.0.0.1:80", "localhost"} {
		if conn, err := dialIn(t.Context(), uint32(os.Getpid()), address); err == nil {
			t.Errorf("connected to %s", conn.RemoteAddr())
		}
	}
}

// The user can name further endpoints. One that belongs to a process replaces that process's own. Its query
// is sent but not stored.
func TestURLs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "token=secret" {
			fmt.Fprint(w, "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 3\n")
		}
	}))
	defer server.Close()
	r, clock := start(t, Options{URLs: []string{fmt.Sprintf("%d=%s/m?token=secret", os.Getpid(), server.URL)}})
	r.See(own("vllm serve m", "http://localhost:1"), nil)
	testkit.Receive(t, "read", clock)
	reads := r.Take()
	if len(reads) != 1 || reads[0].Engine != "SGLang" || reads[0].PID != uint32(os.Getpid()) || *reads[0].Running != 3 || reads[0].URL != server.URL+"/m?***" {
		t.Errorf("got %+v", reads)
	}
	r, err := New(Options{URLs: []string{"http://a/m?key=1", "http://a/m?key=2", "http://a/m?key=1"}})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for x := range r.fixed {
		names[x.shown] = true
	}
	if len(r.fixed) != 2 || !names["http://a/m?***"] || !names["http://a/m?***2"] {
		t.Errorf("URLs that differ in the query are named %v", names)
	}
	for _, bad := range []string{"", "10.0.0.5:8000", "ftp://a/metrics", "http://", "0=http://a/", "x=http://a/", "http://user:secret@a/metrics", "unix:///run/x"} {
		if _, err := New(Options{URLs: []string{bad}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
