package gpu

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Limits on nvidia-smi, which wakes each GPU and so may take seconds.
const (
	smiPatience = 10 * time.Second
	smiOutput   = 64 << 10 // bytes
)

// device is one line of nvidia-smi.
type device struct {
	GPU
	driver string
}

// ErrNoAnswer reports that nvidia-smi did not end in time, as with a hung GPU.
var ErrNoAnswer = errors.New("nvidia-smi does not answer")

// query runs nvidia-smi, if it is installed.
func (m Machine) query(ctx context.Context) ([]device, error) {
	tool, err := m.find()
	if err != nil || tool == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, smiPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool.path,
		"--query-gpu=gpu_bus_id,gpu_uuid,memory.total,driver_version,gpu_name", "--format=csv,noheader,nounits")
	tool.prepare(cmd)
	text, err := output(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", smiName, err)
	}
	return parseDevices(text)
}

// output runs cmd. A process that waits for a hung GPU cannot be killed, so it is left behind when
// ctx ends; the goroutine that waits for it holds a few KiB and ends with it.
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

// capped holds at most smiOutput bytes.
type capped struct{ text []byte } // not a Buffer, whose ReadFrom would bypass Write

func (c *capped) Write(p []byte) (int, error) {
	if len(c.text)+len(p) > smiOutput {
		return 0, fmt.Errorf("its output exceeds %d bytes", smiOutput)
	}
	c.text = append(c.text, p...)
	return len(p), nil
}

// parseDevices parses lines of five values. The name is last, since only it may contain a comma;
// memory is in MiB.
func parseDevices(text string) ([]device, error) {
	var out []device
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ", ", 5)
		if len(f) != 5 || normalBus(f[0]) == "" {
			return out, fmt.Errorf("nvidia-smi: unexpected line %.100q", line)
		}
		d := device{GPU: GPU{Bus: normalBus(f[0]), UUID: known(f[1]), Model: known(f[4])}, driver: known(f[3])}
		// A GPU that shares the machine's memory has no own size.
		if mib, err := strconv.ParseUint(f[2], 10, 40); err == nil {
			d.Memory = int64(mib) << 20
		}
		out = append(out, d)
	}
	return out, nil
}

// known maps "[N/A]", "[Not Supported]", "N/A", "ERR!" and similar values to "".
func known(s string) string {
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "[") || s == "N/A" || s == "ERR!" {
		return ""
	}
	return s
}
