//go:build interop

package guests

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingero/internal/testkit"
)

var nightly = flag.Bool("nightly", false, "boot the kernels, too, that take longer or come from farther away")

// goProgram builds the guest's program.
func goProgram(t *testing.T, k Kernel, path string) string {
	t.Helper()
	init := filepath.Join(t.TempDir(), filepath.Base(path))
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", init, path)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+k.Arch)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return init
}

// guest is a kernel and its expected output.
type guest struct {
	name   string
	kernel Kernel
	append string
	budget string // column of the verifier's instruction counts; "": none printed
	says   []string
	module bool // load the module of test/guests/module, which reports faults as the driver does
}

// forModule lets the kernel log hold all faults that the module reports, without printing them.
const forModule = "log_buf_len=1M loglevel=2"

var guests = []guest{
	{"6.1", Kernel61, forModule, "6.1", []string{"Linux version 6.1.", "mode perf\n", "came by the tracepoint first"}, true},
	{"6.12 preempt", Kernel612, "preempt=full", "6.12", []string{"Linux version 6.12.", "mode multi\n", "preempt full\n"}, false},
}

var nightlyGuests = []guest{
	{"5.15", Kernel515, "", "", []string{"Linux version 5.15.", "mode perf\n"}, false},
	{"6.8", Kernel68, "", "6.8", []string{"Linux version 6.8.", "mode multi\n"}, false},
	{"6.12", Kernel612, "", "6.12", []string{"Linux version 6.12.", "mode multi\n"}, false},
	{"6.1 arm64", Kernel61arm64, "", "6.1-arm64", []string{"Linux version 6.1.", "mode perf\n"}, false},
	{"6.12 arm64", Kernel612arm64, "", "6.12-arm64", []string{"Linux version 6.12.", "mode multi\n"}, false},
}

// Each kernel loads the programs, attaches to the simulated CUDA libraries in its best way, and
// counts and records every call. With the module, faults from the driver's tracepoints are reported
// once and in order, although the kernel log has them too, and faults that do not fit are counted.
func TestGuests(t *testing.T) {
	testkit.NeedTool(t, "go")
	t.Parallel()
	all := guests
	if *nightly {
		all = append(slices.Clone(all), nightlyGuests...)
	}
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			files, err := Libc(test.kernel)
			if err != nil {
				testkit.NeedKernel(t, "glibc: "+err.Error(), false)
			}
			if test.module {
				files["/xid.ko"] = Module(t, test.kernel)
			}
			out := Boot(t, test.kernel, Options{Init: goProgram(t, test.kernel, "./guest"), Append: test.append, Files: files, Exact: true})
			t.Log(out)
			for _, s := range test.says {
				if !strings.Contains(out, s) {
					t.Errorf("does not say %q:\n%s", s, out)
				}
			}
			if test.budget != "" {
				testkit.Budget(t, test.budget, verified(t, out))
			}
		})
	}
}

// slow sets normal grace periods. Each removal of a link waits for one.
const slow = "rcupdate.rcu_expedited=0 "

// Ingero reports that it can trace, names the processes that took a job's CPU, and ends on request.
func TestProduct(t *testing.T) {
	testkit.NeedTool(t, "go")
	all := []guest{{name: "6.1", kernel: Kernel61}}
	if *nightly {
		all = append(slices.Clone(guests), nightlyGuests...)
	}
	for _, test := range all {
		t.Run(test.name, func(t *testing.T) {
			files, err := Libc(test.kernel)
			if err != nil {
				testkit.NeedKernel(t, "glibc: "+err.Error(), false)
			}
			files["/ingero"] = goProgram(t, test.kernel, "ingero/cmd/ingero")
			t.Log(Boot(t, test.kernel, Options{Init: goProgram(t, test.kernel, "./guest"), Append: slow + test.append, Files: files}))
		})
	}
}

// verified parses the verifier's instruction counts in a guest's output.
func verified(t *testing.T, said string) map[string]uint32 {
	t.Helper()
	out := map[string]uint32{}
	for _, m := range regexp.MustCompile(`(?m)^verified (\S+) (\d+)$`).FindAllStringSubmatch(said, -1) {
		n, err := strconv.ParseUint(m[2], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		out[m[1]] = uint32(n)
	}
	return out
}
