package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// serverName is the program name of the server, by which ingero recognizes it.
const serverName = "vllm"

const events = 5 // of a response

// startServer starts this program as a server, with an engine.
func startServer(engine string) (server *exec.Cmd, port string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	server = &exec.Cmd{Path: self, Args: []string{serverName, "serve", "lab/tiny", engine}, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}}
	out, err := server.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := server.Start(); err != nil {
		return nil, "", err
	}
	port, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = server.Wait()
		return nil, "", fmt.Errorf("the server did not start: %w", err)
	}
	return server, strings.TrimSpace(port), nil
}

// serve runs the server, which starts its engine, and prints its port.
func serve(engine string) error {
	words := strings.Fields(engine)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	return (&http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}).Serve(l)
}

// answer sends the head by itself and then each event, as servers do.
func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	send := http.NewResponseController(w)
	for range events {
		if send.Flush() != nil {
			return
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\" tok\"}]}\n\n")
	}
}
