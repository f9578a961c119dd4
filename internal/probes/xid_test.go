package probes

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

const xidFormat = `name: nvidia_dev_xid
ID: 1781
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:__data_loc char[] dev;	offset:8;	size:4;	signed:0;
	field:u32 error_code;	offset:12;	size:4;	signed:0;
	field:__data_loc char[] msg;	offset:16;	size:4;	signed:0;

print fmt: "Xid (PCI:%s): %u, %s", __get_str(dev), REC->error_code, __get_str(msg)
`

// Offsets of fields are read from the format: a driver may move fields, and one that changes their
// type is refused.
func TestParseFormat(t *testing.T) {
	moved := strings.NewReplacer("offset:8;", "offset:24;", "offset:12;", "offset:8;", "offset:16;", "offset:12;").Replace(xidFormat)
	for _, tt := range []struct {
		name, text string
		want       Format
		err        string
	}{
		{"as of driver 575", xidFormat, Format{8, 12, 16}, ""},
		{"moved", moved, Format{24, 8, 12}, ""},
		{"signed chars", strings.ReplaceAll(xidFormat, "signed:0;", "signed:1;"), Format{8, 12, 16}, ""},
		{"without a message", strings.ReplaceAll(xidFormat, " msg;", " text;"), Format{}, `no field "msg"`},
		{"another kind of string", strings.ReplaceAll(xidFormat, "__data_loc char[] dev", "char dev[16]"), Format{}, `no field "dev"`},
		{"a relative one", strings.ReplaceAll(xidFormat, "__data_loc char[] msg", "__rel_loc char[] msg"), Format{}, "unexpected field"},
		{"a wide code", strings.ReplaceAll(xidFormat, "offset:12;	size:4", "offset:12;	size:8"), Format{}, "unexpected field"},
		{"nothing", "", Format{}, "no field"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseFormat(tt.text)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, %v; want the error %q", got, err, tt.err)
				}
				return
			}
			if err != nil || *got != tt.want {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

// tracepoints makes a tracing file system with one tracepoint.
func tracepoints(t *testing.T, format string) []string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "events/nvidia/nvidia_dev_xid")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "format"), []byte(format), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{t.TempDir(), root}
}

// Errors are distinguished: no tracepoint, or another format. A tracepoint that exists only in the
// file cannot be attached to, after its program was loaded.
func TestOpenXidsSaysWhy(t *testing.T) {
	testkit.NeedBPF(t)
	for _, tt := range []struct {
		name  string
		roots []string
		is    error
		says  string
	}{
		{"no driver", []string{t.TempDir()}, ErrNoTracepoint, "nvidia:nvidia_dev_xid"},
		{"another shape", tracepoints(t, "format:\n"), nil, "no field"},
		{"it went away", tracepoints(t, xidFormat), fs.ErrNotExist, "attach"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := os.Stat(tracefsRoots[0] + "/events/nvidia")
			testkit.NeedKernel(t, "no NVIDIA driver", err != nil)
			x, err := openXids(tt.roots)
			if err == nil {
				_ = x.Close()
				t.Fatal("it was opened")
			}
			if tt.is != nil && !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %v and %q", err, tt.is, tt.says)
			}
		})
	}
}

// Missing privileges and missing BTF give different errors.
func TestExplainXid(t *testing.T) {
	if err := explainXid(fs.ErrPermission); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNoBTF) {
		t.Errorf("got %v", err)
	}
}
