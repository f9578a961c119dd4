package python

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ingero/internal/jail"
	"ingero/internal/proc"
	"ingero/internal/testkit"
)

func TestMain(m *testing.M) {
	jail.Enter()
	os.Exit(m.Run())
}

func versionOf(t *testing.T, s string) (v Version) {
	t.Helper()
	if _, err := fmt.Sscanf(s, "%d.%d", &v.Major, &v.Minor); err != nil {
		t.Fatal(err)
	}
	return v
}

// findsByPlace reports whether a program finds a library by a path relative to its own.
func findsByPlace(t *testing.T, program string) bool {
	t.Helper()
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(needed, func(name string) bool { return strings.HasPrefix(name, "$ORIGIN") })
}

// For an interpreter of known version but unknown structures, the offsets that a copy reveals equal
// those of the table.
func TestProber(t *testing.T) {
	for _, version := range testkit.PythonVersions(t) {
		v := versionOf(t, version)
		want, ok := byVersion[v]
		if !ok { // it publishes its offsets
			continue
		}
		t.Run(version, func(t *testing.T) {
			p, target := running(t, version)
			table := byVersion[v]
			t.Cleanup(func() { byVersion[v] = table })
			wrong := table
			wrong.CoName, wrong.TsFrame, wrong.InterpThreads, wrong.gil = 1, 2, 3, 4
			byVersion[v] = wrong
			target.Prober = &Prober{}
			found := &Process{Facts: Facts{Runtime: p.Facts.Runtime}}
			mapped, err := target.FS.Maps(target.PID, false)
			if err != nil {
				t.Fatal(err)
			}
			m := candidates(mapped, "")[0]
			file, _, err := target.FS.OpenMapped(target.PID, m)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			image, err := readImage(file)
			if err != nil {
				t.Fatal(err)
			}
			err = found.settle(memory{target.Memory}, v, []slowSource{
				{SourceProbe, func() (offsets, error) { return target.Prober.offsets(target, mapped, m, image, v) }},
			})
			if findsByPlace(t, testkit.NeedPython(t, version)) {
				if !errors.Is(err, ErrMismatch) {
					t.Errorf("got %v: a copy lies elsewhere, and does not find its library", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want.CoVersion = 0 // not visible from Python
			if found.off != want {
				t.Errorf("got  %+v\nwant %+v", found.off, want)
			}
			if found.Source != SourceProbe || len(target.Prober.results) != 1 {
				t.Errorf("by %s, %d files asked", found.Source, len(target.Prober.results))
			}
		})
	}
}

// The Prober runs a program only if enabled, and only python.
func TestProberRunsPythonAlone(t *testing.T) {
	_, target := running(t, testkit.PythonVersion(t))
	var none *Prober
	if _, err := none.offsets(target, nil, proc.Mapping{}, nil, newest); !errors.Is(err, errNoSource) {
		t.Errorf("without being wanted: %v", err)
	}
	c := testkit.Start(t, exec.Command("sleep", "1000"))
	testkit.Eventually(t, "another program", func() bool {
		p, err := target.FS.Process(uint32(c.PID()))
		return err == nil && strings.HasSuffix(p.Exe, "/sleep")
	})
	other := Target{PID: uint32(c.PID())}
	mapped, err := other.FS.Maps(other.PID, false)
	if err != nil {
		t.Fatal(err)
	}
	var p Prober
	for i := range maxTries + 2 { // it may have timed out on a busy machine
		_, err = p.offsets(other, mapped, mapped[0], &image{}, newest)
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "does not run a copy") {
			t.Errorf("got %v", err)
		}
		if got, want := p.results[mapped[0].Key].asked, min(i+1, maxTries); got != want {
			t.Errorf("after %d questions the file was asked %d times, want %d", i+1, got, want)
		}
	}
}
