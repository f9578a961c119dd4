package python

import (
	"errors"
	"os"
	"os/exec"
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

// An interpreter whose version is known but whose structures are not says where things are
// in it: what a copy of it says is what the table has.
func TestProber(t *testing.T) {
	for v, want := range byVersion {
		t.Run(v.String(), func(t *testing.T) {
			p, target := running(t, v.String())
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
			m := candidates(mapped)[0]
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
			if err != nil {
				t.Fatal(err)
			}
			want.CoVersion = 0 // nothing shows it to Python
			if found.off != want {
				t.Errorf("got  %+v\nwant %+v", found.off, want)
			}
			if found.Source != SourceProbe || len(target.Prober.asked) != 1 {
				t.Errorf("by %s, %d files asked", found.Source, len(target.Prober.asked))
			}
		})
	}
}

// Nothing is run unless that is wanted, and no program but python is.
func TestProberRunsPythonAlone(t *testing.T) {
	_, target := running(t, "3.12")
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
	for i := range maxTries + 2 { // it may not have answered because the machine was busy
		_, err = p.offsets(other, mapped, mapped[0], &image{}, newest)
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "is not run") {
			t.Errorf("got %v", err)
		}
		if got, want := p.asked[mapped[0].Key].asked, min(i+1, maxTries); got != want {
			t.Errorf("after %d questions the file was asked %d times, want %d", i+1, got, want)
		}
	}
}
