package proc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
)

// A process has a device open if the number says so, whatever the name says.
func TestWithOpen(t *testing.T) {
	file := func(path string) *os.File {
		f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	dir := filepath.Join(t.TempDir(), "dev")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "read -r _")
	cmd.ExtraFiles = []*os.File{file("/dev/zero"), file("/dev/full"), file(filepath.Join(dir, "urandom"))}
	child := testkit.Start(t, cmd)
	pid := uint32(child.PID())
	zero, full, urandom := Device{1, 5}, Device{1, 7}, Device{1, 9}
	for _, tt := range []struct {
		name    string
		devices []Device
		skip    map[uint32]bool
		want    []Device
	}{
		{"one", []Device{zero}, nil, []Device{zero}},
		{"two", []Device{full, zero}, nil, []Device{zero, full}},
		{"one to skip", []Device{full, zero}, map[uint32]bool{pid: true}, nil},
		{"one of two", []Device{zero, {5, 0}}, nil, []Device{zero}},
		{"a file with a device's name", []Device{urandom}, nil, nil},
	} {
		found, _, err := FS{}.WithOpen(tt.devices, tt.skip)
		var got []Device
		if at := slices.IndexFunc(found, func(x Opened) bool { return x.PID == pid }); at >= 0 {
			got = found[at].Devices
			slices.SortFunc(got, func(a, b Device) int { return cmp.Compare(a.Minor, b.Minor) })
		}
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: it has %v open, error %v; want %v", tt.name, got, err, tt.want)
		}
	}
	child.Send("end")
}

// Processes with too many open files are counted.
func TestWithOpenIsBounded(t *testing.T) {
	root := t.TempDir()
	for pid, files := range map[int]int{7: maxOpenOfOne - 1, 8: maxOpenOfOne} {
		dir := filepath.Join(root, fmt.Sprint(pid), "fd")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range files {
			if err := os.Symlink("/dev/null", filepath.Join(dir, fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, unread, err := FS{Root: root}.WithOpen([]Device{{1, 5}}, nil)
	if err != nil || len(got) != 0 || unread != 1 {
		t.Errorf("%v, %d unread, error %v; want one unread", got, unread, err)
	}
}

// An open file whose device cannot be read, as one of another user's FUSE mount, does not hide the other files.
func TestOpenedWithAnUnreadableFile(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "7", "fd")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, file := range []string{"/dev/zero", "/dev/zero", "/dev/full", "/dev/full"} { // two each: one may be the unreadable one
		if err := os.Symlink(file, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	zero, full, urandom := Device{1, 5}, Device{1, 7}, Device{1, 9}
	for _, tt := range []struct {
		name    string
		first   error // for the first file
		devices []Device
		want    int // open devices
		err     error
	}{
		{"all open", unix.EACCES, []Device{full, zero}, 2, nil},
		{"one missing", unix.EACCES, []Device{zero, urandom}, 1, unix.EACCES},
		{"one missing, and a file closed", unix.ENOENT, []Device{zero, urandom}, 1, nil},
	} {
		calls := 0
		has, _, err := FS{Root: root}.opened(7, tt.devices, maxOpenOfOne, func(dir int, name string) (Device, error) {
			if calls++; calls == 1 {
				return Device{}, tt.first
			}
			return charDevice(dir, name)
		})
		if len(has) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, error %v; want %d, %v", tt.name, has, err, tt.want, tt.err)
		}
	}
}

// The time for all processes of this machine, and for each.
func BenchmarkWithOpen(b *testing.B) {
	pids, err := FS{}.pids()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := (FS{}).WithOpen([]Device{{195, 0}, {510, 0}}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(pids)), "ns/process")
}
