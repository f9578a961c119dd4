package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// Info has the driver and the GPUs of a machine. It is empty without an NVIDIA driver.
type Info struct {
	Driver Driver
	GPUs   []GPU    // by bus address
	Nodes  []string // device files, /dev/nvidia0, /dev/nvidiactl and so on; none: no process here can use a GPU
}

// Driver is the kernel's NVIDIA driver.
type Driver struct {
	Version string // "550.163.01"; empty if not loaded
	Open    bool   // open kernel modules instead of the proprietary ones
}

// GPU is one device. Unknown strings are empty, and unknown Memory is zero.
type GPU struct {
	Model    string // "NVIDIA H200"
	UUID     string // "GPU-" and 36 characters, once the driver has woken it
	Bus      string // "0000:01:00.0": domain, bus, device and function, in lower case
	Node     string // "/dev/nvidia0"
	Memory   int64  // bytes
	Excluded bool   // by the administrator: no process may use it
}

// Machine is the machine to inspect. The zero value is this one.
type Machine struct {
	Root string // prefix of /proc, /sys, /dev and the places of nvidia-smi
	Path string // search path of nvidia-smi; empty: $PATH
}

// nodeName is the name of a GPU's device file, without its number.
const nodeName = "/dev/nvidia"

// maxFile bounds the bytes read of one driver file.
const maxFile = 64 << 10

// Read finds the driver and its GPUs. With an error it returns partial results.
func (m Machine) Read(ctx context.Context) (Info, error) {
	var info Info
	var errs []error
	driver, err := m.driver()
	info.Driver, errs = driver, append(errs, err)
	info.Nodes, _ = m.glob("/dev/nvidia*") // the pattern is valid
	info.GPUs, err = m.gpus()
	errs = append(errs, err)
	if info.Driver.Version != "" || m.Loaded() { // WSL has no such files or nodes
		devices, err := m.query(ctx)
		errs = append(errs, err)
		info.merge(devices)
	}
	return info, errors.Join(errs...)
}

func (m Machine) driver() (Driver, error) {
	text, err := m.read("/proc/driver/nvidia/version")
	if err == nil {
		return parseVersion(text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return Driver{}, err
	}
	text, err = m.read("/sys/module/nvidia/version") // a sandbox may have only this
	if errors.Is(err, fs.ErrNotExist) {
		return Driver{}, nil
	}
	return Driver{Version: strings.TrimSpace(text)}, err
}

// parseVersion parses /proc/driver/nvidia/version. Its first line is one of
//
//	NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025
//	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (...)
func parseVersion(text string) (Driver, error) {
	line, _, _ := strings.Cut(text, "\n")
	what, ok := strings.CutPrefix(line, "NVRM version:")
	if !ok {
		return Driver{}, fmt.Errorf("driver version: unexpected line %.100q", line)
	}
	for word := range strings.FieldsSeq(what) {
		if isVersion(word) {
			return Driver{Version: word, Open: strings.Contains(what, " Open Kernel Module")}, nil
		}
	}
	return Driver{}, fmt.Errorf("driver version: none in %.100q", line)
}

// isVersion reports whether a word is two or three numbers separated by dots.
func isVersion(word string) bool {
	parts := strings.Split(word, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return false
	}
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, 32); err != nil {
			return false
		}
	}
	return true
}

func (m Machine) gpus() ([]GPU, error) {
	files, _ := m.glob("/proc/driver/nvidia/gpus/*/information") // the pattern is valid
	var out []GPU
	var errs []error
	for _, path := range files {
		text, err := m.read(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		g := parseInformation(text)
		if g.Bus == "" {
			g.Bus = normalBus(filepath.Base(filepath.Dir(path)))
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b GPU) int { return strings.Compare(a.Bus, b.Bus) })
	return out, errors.Join(errs...)
}

// Minor returns the minor number of a GPU's device file. The GPU is named by its UUID, or by its index in states.
// Without states, the index is its place in the order of addresses, as nvidia-smi numbers GPUs. The driver may not
// answer while a GPU hangs.
func (m Machine) Minor(name string, states []tick.GPU) (minor uint32, ok bool) {
	gpus, _ := m.gpus() // those that could be read
	at := slices.IndexFunc(gpus, func(g GPU) bool { return g.UUID != "" && g.UUID == name })
	if index, err := strconv.Atoi(name); err == nil {
		if at = index; len(states) > 0 {
			i := slices.IndexFunc(states, func(s tick.GPU) bool { return s.Index == index })
			at = slices.IndexFunc(gpus, func(g GPU) bool { return i >= 0 && g.Bus == states[i].Bus })
		}
	}
	if at < 0 || at >= len(gpus) {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(gpus[at].Node, nodeName), 10, 32)
	return uint32(n), err == nil
}

// parseInformation parses /proc/driver/nvidia/gpus/*/information: lines of a name, a colon and a
// value. Before the GPU is initialized, and if unknown to the driver, a value has question marks.
func parseInformation(text string) GPU {
	var g GPU
	for line := range strings.Lines(text) {
		key, val, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		val = strings.TrimSpace(val)
		switch key {
		case "Model":
			if val != "Unknown" {
				g.Model = val
			}
		case "GPU UUID":
			if !strings.Contains(val, "?") {
				g.UUID = val
			}
		case "Bus Location":
			g.Bus = normalBus(val)
		case "Device Minor":
			if n, err := strconv.ParseUint(val, 10, 16); err == nil {
				g.Node = nodeName + strconv.FormatUint(n, 10)
			}
		case "GPU Excluded":
			g.Excluded = val == "Yes"
		}
	}
	return g
}

// normalBus converts a PCI address to the kernel's form: nvidia-smi writes eight digits of domain,
// and capitals. It returns "" for an invalid address.
func normalBus(s string) string {
	domain, rest, ok := strings.Cut(s, ":")
	n, err := strconv.ParseUint(domain, 16, 32)
	if !ok || err != nil || len(rest) != len("01:00.0") {
		return ""
	}
	for i, c := range []byte(rest) {
		isHex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
		switch i {
		case 2:
			isHex = c == ':'
		case 5:
			isHex = c == '.'
		}
		if !isHex {
			return ""
		}
	}
	return fmt.Sprintf("%04x:%s", n, strings.ToLower(rest))
}

// merge adds the data of nvidia-smi to that of the driver's files.
func (i *Info) merge(devices []device) {
	for _, d := range devices {
		if i.Driver.Version == "" {
			i.Driver.Version = d.driver
		}
		at := slices.IndexFunc(i.GPUs, func(g GPU) bool { return g.Bus == d.Bus })
		if at < 0 {
			i.GPUs = append(i.GPUs, d.GPU)
			continue
		}
		g := &i.GPUs[at]
		g.Memory = d.Memory
		if g.UUID == "" {
			g.UUID = d.UUID
		}
		if g.Model == "" {
			g.Model = d.Model
		}
	}
	slices.SortStableFunc(i.GPUs, func(a, b GPU) int { return strings.Compare(a.Bus, b.Bus) })
}

func (m Machine) read(path string) (string, error) {
	f, err := os.Open(m.Root + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // read-only
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	return string(b), err
}

func (m Machine) exists(path string) bool {
	_, err := os.Stat(m.Root + path)
	return err == nil
}

// glob returns paths without Root.
func (m Machine) glob(pattern string) ([]string, error) {
	found, err := filepath.Glob(m.Root + pattern)
	for i := range found {
		found[i] = found[i][len(m.Root):]
	}
	return found, err
}
