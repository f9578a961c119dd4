package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

const (
	closedVersion = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
	openVersion   = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (dvs-builder@U16-A24-9-2)  Thu Oct 10 12:15:00 UTC 2024\nGCC version:  gcc version 13.3.0\n"
	uuid          = "GPU-6b6ba0b4-1f9d-4e0c-8f0a-2e1d8f5b9c3a"
	information   = "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 133\nGPU UUID: \t " + uuid + "\nVideo BIOS: \t 92.00.45.00.03\nBus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t 0000:0f:00.0\nDevice Minor: \t 3\nGPU Firmware: \t N/A\nGPU Excluded:\t No\n"
	asleep        = "Model: \t\t Unknown\nGPU UUID: \t GPU-????????-????-????-????-????????????\nBus Location: \t 0000:07:00.0\nDevice Minor: \t 0\nGPU Excluded:\t Yes\n"
)

// machine makes a root directory of files; nvidia-smi becomes executable.
func machine(t *testing.T, files map[string]string) Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, path, []byte(text))
	}
	return Machine{Root: root}
}

// smi returns an nvidia-smi that checks its arguments and environment, and prints text.
func smi(text string) string {
	return fmt.Sprintf("#!/bin/sh\ntest \"$1\" = --query-gpu=gpu_bus_id,gpu_uuid,memory.total,driver_version,gpu_name || exit 9\ntest -z \"$SECRET$HOME\" || exit 8\ncat <<'END'\n%sEND\n", text)
}

func TestRead(t *testing.T) {
	t.Setenv("SECRET", "not for nvidia-smi")
	const gpus = "proc/driver/nvidia/gpus/"
	a100 := GPU{Model: "NVIDIA A100-SXM4-40GB", UUID: uuid, Bus: "0000:0f:00.0", Node: "/dev/nvidia3"}
	with := a100
	with.Memory = 40960 << 20
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  Info
		err   string
	}{
		{name: "no GPU"},
		{name: "no GPU, but nvidia-smi, which is left alone", files: map[string]string{"usr/bin/nvidia-smi": "#!/bin/sh\nexit 1\n"}},
		{name: "driver alone", files: map[string]string{"proc/driver/nvidia/version": openVersion},
			want: Info{Driver: Driver{Version: "565.57.01", Open: true}}},
		{name: "sandbox", files: map[string]string{"sys/module/nvidia/version": "580.159.03\n"},
			want: Info{Driver: Driver{Version: "580.159.03"}}},
		{name: "without nvidia-smi", files: map[string]string{
			"proc/driver/nvidia/version": closedVersion, gpus + "0000:0f:00.0/information": information,
			"dev/nvidia3": "", "dev/nvidiactl": "",
		}, want: Info{Driver: Driver{Version: "550.163.01"}, GPUs: []GPU{a100}, Nodes: []string{"/dev/nvidia3", "/dev/nvidiactl"}}},
		{name: "two, one asleep", files: map[string]string{
			"proc/driver/nvidia/version": closedVersion, gpus + "0000:0f:00.0/information": information, gpus + "0000:07:00.0/information": asleep,
			"usr/bin/nvidia-smi": smi("00000000:0F:00.0, " + uuid + ", 40960, 550.163.01, NVIDIA A100-SXM4-40GB\n"),
		}, want: Info{Driver: Driver{Version: "550.163.01"}, GPUs: []GPU{{Bus: "0000:07:00.0", Node: "/dev/nvidia0", Excluded: true}, with}}},
		{name: "WSL", files: map[string]string{"dev/dxg": "",
			"usr/lib/wsl/lib/nvidia-smi": smi("00000000:01:00.0, GPU-1, 24564, 551.23, NVIDIA GeForce RTX 4090, laptop\n"),
		}, want: Info{Driver: Driver{Version: "551.23"}, GPUs: []GPU{{Model: "NVIDIA GeForce RTX 4090, laptop", UUID: "GPU-1", Bus: "0000:01:00.0", Memory: 24564 << 20}}}},
		{name: "shared memory", files: map[string]string{"proc/driver/nvidia/version": openVersion,
			"usr/bin/nvidia-smi": smi("0000000F:01:00.0, [N/A], [N/A], 565.57.01, NVIDIA GB10\n"),
		}, want: Info{Driver: Driver{Version: "565.57.01", Open: true}, GPUs: []GPU{{Model: "NVIDIA GB10", Bus: "000f:01:00.0"}}}},
		{name: "nvidia-smi fails", files: map[string]string{
			"proc/driver/nvidia/version": closedVersion, gpus + "0000:0f:00.0/information": information,
			"usr/bin/nvidia-smi": "#!/bin/sh\necho No devices were found\nexit 6\n",
		}, want: Info{Driver: Driver{Version: "550.163.01"}, GPUs: []GPU{a100}}, err: "exit status 6"},
		{name: "nvidia-smi says something else", files: map[string]string{"proc/driver/nvidia/version": closedVersion,
			"usr/bin/nvidia-smi": smi("hello\n")}, want: Info{Driver: Driver{Version: "550.163.01"}}, err: "unexpected line"},
		{name: "nvidia-smi does not stop talking", files: map[string]string{"proc/driver/nvidia/version": closedVersion,
			"usr/bin/nvidia-smi": "#!/bin/sh\nexec cat /dev/zero\n"}, want: Info{Driver: Driver{Version: "550.163.01"}}, err: "nvidia-smi"},
		{name: "strange version", files: map[string]string{"proc/driver/nvidia/version": "nouveau\n"}, err: "unexpected line"},
		{name: "no version", files: map[string]string{"proc/driver/nvidia/version": "NVRM version: none of 1 is 2.x\n"}, err: "none in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := machine(t, tt.files).Read(t.Context())
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("error = %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("info (-want +got):\n%s", diff)
			}
		})
	}
}

// A GPU has the number that nvidia-smi gives it, or its place by address.
func TestMinor(t *testing.T) {
	m := machine(t, map[string]string{"proc/driver/nvidia/gpus/0000:0f:00.0/information": information, "proc/driver/nvidia/gpus/0000:07:00.0/information": asleep})
	states := []tick.GPU{{Index: 0, Bus: "0000:0f:00.0"}, {Index: 5, Bus: "0000:aa:00.0"}}
	for _, tt := range []struct {
		name   string
		states []tick.GPU
		want   string
	}{
		{"0", nil, "0"}, {"1", nil, "3"}, {"2", nil, "none"}, {"-1", nil, "none"}, {uuid, nil, "3"}, {uuid, states, "3"}, {"MIG-1", nil, "none"}, {"", nil, "none"},
		{"0", states, "3"}, {"1", states, "none"}, {"5", states, "none"},
	} {
		got := "none"
		if n, ok := m.Minor(tt.name, tt.states); ok {
			got = fmt.Sprint(n)
		}
		if got != tt.want {
			t.Errorf("%q of %d states: %s, want %s", tt.name, len(tt.states), got, tt.want)
		}
	}
}

// Read returns although a GPU hangs. The program in its place waits for a pipe without a writer;
// its own line shows that it has started.
func TestReadDoesNotWait(t *testing.T) {
	m := machine(t, map[string]string{"proc/driver/nvidia/version": closedVersion})
	started, never := filepath.Join(m.Root, "started"), filepath.Join(m.Root, "never")
	for _, pipe := range []string{started, never} {
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\necho up >%s\nread x <%s\n", started, never)
	if err := os.MkdirAll(m.Root+"/usr/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	testkit.WriteProgram(t, m.Root+"/usr/bin/nvidia-smi", []byte(script))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = os.ReadFile(started)
		cancel()
	}()
	info, err := m.Read(ctx)
	if !errors.Is(err, ErrNoAnswer) || info.Driver.Version == "" {
		t.Errorf("Read = %+v, %v, want no answer", info, err)
	}
}

func TestReadOnRealGPU(t *testing.T) {
	testkit.NeedGPU(t)
	info, err := Machine{}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Driver.Version == "" || len(info.GPUs) == 0 || info.GPUs[0].Model == "" || len(info.Nodes) == 0 {
		t.Errorf("info = %+v", info)
	}
}

func TestNormalBus(t *testing.T) {
	for in, want := range map[string]string{
		"0000:01:00.0": "0000:01:00.0", "00000000:AF:1C.7": "0000:af:1c.7", "10000:e1:00.0": "10000:e1:00.0",
		"": "", "01:00.0": "", "0000:01:00": "", "x:01:00.0": "", "0000:01-00.0": "", "0000:0g:00.0": "", "0000:01:00x0": "",
	} {
		t.Run(in, func(t *testing.T) {
			if got := normalBus(in); got != want {
				t.Errorf("normalBus = %q, want %q", got, want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(closedVersion)
	f.Add(openVersion)
	f.Add(information)
	f.Add("00000000:01:00.0, GPU-1, 24564, 551.23, NVIDIA GeForce RTX 4090\n")
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseVersion(text); err == nil && !isVersion(d.Version) {
			t.Errorf("version %q", d.Version)
		}
		if g := parseInformation(text); g.Bus != "" && normalBus(g.Bus) != g.Bus {
			t.Errorf("bus %q", g.Bus)
		}
		devices, _ := parseDevices(text)
		for _, d := range devices {
			if d.Memory < 0 || normalBus(d.Bus) != d.Bus {
				t.Errorf("device %+v", d)
			}
		}
	})
}
