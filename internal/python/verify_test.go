package python

import (
	"os/exec"
	"reflect"
	"testing"
	"time"

	"ingero/internal/proc"
	"ingero/internal/testkit"
)

// running starts an interpreter that waits, and finds it.
func running(t *testing.T, version string) (*Process, Target) {
	t.Helper()
	testkit.NeedRoot(t)
	c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "-c", "def wait():\n print('ready', flush=True)\n input()\nwait()"))
	c.Line("ready")
	mem, err := (proc.FS{}).Memory(uint32(c.PID()), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	target := Target{PID: uint32(c.PID()), Memory: mem}
	p, err := Find(target)
	if err != nil {
		t.Fatal(err)
	}
	return p, target
}

// No offsets fit an interpreter but its own: neither another version's nor its own with a
// mistake in any that a stack depends on.
func TestOnlyItsOwnOffsetsFit(t *testing.T) {
	for _, version := range testkit.PythonVersions {
		t.Run(version, func(t *testing.T) {
			p, target := running(t, version)
			m := memory{target.Memory}
			for v, o := range byVersion {
				f := Facts{Runtime: p.Facts.Runtime}
				if err := m.verify(&f, o); err == nil && v != p.Version {
					t.Errorf("the offsets of %s fit", v)
				}
			}
			for _, name := range []string{"InterpHead", "InterpThreads", "TsID", "TsFrame", "FCode", "FPrev", "FInstr",
				"CoCode", "CoFirst", "CoFile", "CoName", "CoQualname", "CoLines", "StrASCII"} {
				for _, by := range []int{-8, 8} {
					if by == 8 && (name == "InterpHead" || name == "InterpThreads") {
						continue // the main one: the same, while there is one
					}
					o := p.off
					field := reflect.ValueOf(&o.Layout).Elem().FieldByName(name)
					if int(field.Uint())+by < 0 {
						continue
					}
					field.SetUint(uint64(int(field.Uint()) + by))
					f := Facts{Runtime: p.Facts.Runtime}
					if err := m.verify(&f, o); err == nil {
						t.Errorf("%s off by %d fits", name, by)
					}
				}
			}
		})
	}
}

// Debugging information says what the table says, and what the interpreter does.
func TestDWARF(t *testing.T) {
	ran, tried := 0, 0
	for _, version := range testkit.PythonVersions {
		t.Run(version, func(t *testing.T) {
			p, target := running(t, version)
			ran++
			mapped, err := target.FS.Maps(target.PID, false)
			if err != nil {
				t.Fatal(err)
			}
			file, _, err := target.FS.OpenMapped(target.PID, candidates(mapped)[0])
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = file.Close() }()
			o, err := dwarfOffsets(file)
			if err != nil {
				t.Logf("CPython %s: %v", version, err)
				return
			}
			tried++
			want := p.off
			if want.gilAt == gilInInterp { // 3.12 has a pointer too, which its table lacks
				want.gil, want.gilAt = o.gil, o.gilAt
			}
			if o != want {
				t.Errorf("got  %+v\nwant %+v", o, want)
			}
			f := Facts{Runtime: p.Facts.Runtime}
			if err := (memory{target.Memory}).verify(&f, o); err != nil {
				t.Error(err)
			}
		})
	}
	if tried < min(ran, 3) {
		t.Errorf("only %d of %d interpreters have debugging information that can be read", tried, ran)
	}
}
