package gpu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tools are the places where nvidia-smi is installed. PATH is not asked: this
// may run as root. libs is where its library lies when the loader cannot know.
var tools = []struct{ path, libs string }{
	{path: "/usr/bin/nvidia-smi"},
	{path: "/usr/local/nvidia/bin/nvidia-smi", libs: "/usr/local/nvidia/lib64"}, // Kubernetes device plug-ins
	{path: "/usr/lib/wsl/lib/nvidia-smi", libs: "/usr/lib/wsl/lib"},
	{path: "/opt/bin/nvidia-smi"},
	{path: "/run/current-system/sw/bin/nvidia-smi"}, // NixOS
}

// Limits on nvidia-smi, which wakes each GPU and may so take seconds.
const (
	smiPatience = 10 * time.Second
	smiOutput   = 64 << 10 // bytes
)

// device is one line of nvidia-smi.
type device struct {
	GPU
	driver string
}

// ErrNoAnswer says that nvidia-smi did not end in time, which a hung GPU causes.
var ErrNoAnswer = errors.New("nvidia-smi does not answer")

// ask runs nvidia-smi where it is installed.
func (m Machine) ask(ctx context.Context) ([]device, error) {
	for _, tool := range tools {
		if !m.exists(tool.path) {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, smiPatience)
		defer cancel()
		cmd := exec.CommandContext(ctx, m.Root+tool.path,
			"--query-gpu=gpu_bus_id,gpu_uuid,memory.total,driver_version,gpu_name", "--format=csv,noheader,nounits")
		cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
		if tool.libs != "" {
			cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+tool.libs)
		}
		cmd.Dir = "/"
		text, err := output(ctx, cmd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(tool.path), err)
		}
		return parseDevices(text)
	}
	return nil, nil
}

// output runs cmd. A process that waits for a hung GPU cannot be killed, so it is
// left behind when ctx ends; the goroutine that waits for it holds a few KiB and
// ends with it.
func output(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out capped
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		if ctx.Err() != nil {
			return "", ErrNoAnswer
		}
		return string(out.text), err
	case <-ctx.Done():
		return "", ErrNoAnswer
	}
}

// capped refuses to hold more than smiOutput bytes.
type capped struct{ text []byte } // no Buffer, whose ReadFrom would go past Write

func (c *capped) Write(p []byte) (int, error) {
	if len(c.text)+len(p) > smiOutput {
		return 0, fmt.Errorf("it says more than %d bytes", smiOutput)
	}
	c.text = append(c.text, p...)
	return len(p), nil
}

// parseDevices reads lines of five values. The name is last, since it alone may
// hold a comma; memory is in MiB.
func parseDevices(text string) ([]device, error) {
	var out []device
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ", ", 5)
		if len(f) != 5 || normalBus(f[0]) == "" {
			return out, fmt.Errorf("nvidia-smi: unexpected line %.100q", line)
		}
		d := device{GPU: GPU{Bus: normalBus(f[0]), UUID: known(f[1]), Model: known(f[4])}, driver: known(f[3])}
		// A GPU that shares the machine's memory has none to tell.
		if mib, err := strconv.ParseUint(f[2], 10, 40); err == nil {
			d.Memory = int64(mib) << 20
		}
		out = append(out, d)
	}
	return out, nil
}

// known turns "[N/A]" and the like into nothing.
func known(s string) string {
	if strings.HasPrefix(s, "[") {
		return ""
	}
	return s
}
