package python

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// Only its own offsets fit an interpreter: not another version's, nor its own with one wrong offset
// that stacks depend on.
func TestOnlyItsOwnOffsetsFit(t *testing.T) {
	for _, version := range testkit.PythonVersions(t) {
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
						continue // the main interpreter: identical while there is only one
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

// Find accepts an interpreter in the __init__ of an object that it has made often. Between it and
// its caller lies a frame that never begins to run (3.12 and later).
func TestFindInConstructor(t *testing.T) {
	const program = `class Made:
    def __init__(self, wait):
        if wait:
            print("ready", flush=True)
            input()
for i in range(1000): Made(i == 999)`
	testkit.NeedRoot(t)
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			c := testkit.Start(t, exec.Command(testkit.NeedPython(t, version), "-c", program))
			c.Line("ready")
			mem, err := (proc.FS{}).Memory(uint32(c.PID()), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			defer mem.Close()
			if _, err := Find(Target{PID: uint32(c.PID()), Memory: mem}); err != nil {
				t.Error(err)
			}
		})
	}
}

// otherwise is the memory of an interpreter, with another version number.
type otherwise struct {
	Reader
	is, says []byte // versions as bytes in memory
}

func (o otherwise) ReadAt(b []byte, at int64) (int, error) {
	n, err := o.Reader.ReadAt(b, at)
	copy(b, bytes.ReplaceAll(b[:n], o.is, o.says))
	return n, err
}

// An unknown version is refused by its number, even if its structures fit.
func TestOtherVersion(t *testing.T) {
	version := testkit.PythonVersion(t)
	p, target := running(t, version)
	if version == "3.10" { // only its file name has the version
		if err := p.settle(memory{target.Memory}, Version{3, 9}, nil); !errors.Is(err, ErrVersion) {
			t.Errorf("got %v, want %v", err, ErrVersion)
		}
		return
	}
	out, err := exec.Command(testkit.NeedPython(t, version), "-c", "import sys; print(sys.hexversion)").Output()
	if err != nil {
		t.Fatal(err)
	}
	is, err := strconv.ParseUint(strings.TrimSpace(string(out)), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	target.Memory = otherwise{target.Memory, le.AppendUint32(nil, uint32(is)), le.AppendUint32(nil, 0x030900f0)}
	if p, err := Find(target); !errors.Is(err, ErrVersion) {
		t.Errorf("got %+v, %v, want %v", p, err, ErrVersion)
	}
}

// The version comes from the name of the program or library if the program does not state it.
func TestVersionInName(t *testing.T) {
	for name, want := range map[string]Version{
		"/usr/bin/python3.9":                  {3, 9},
		"/usr/lib/libpython3.10.so.1.0":       {3, 10},
		"/opt/python3.12/bin/python3":         {},
		"/usr/local/bin/python3.14 (deleted)": {3, 14},
		"/usr/bin/uwsgi":                      {},
	} {
		if got := (Target{}).hint(memory{}, &image{}, 0, name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// The offsets of the debug information equal those of the table, and fit the interpreter.
func TestDWARF(t *testing.T) {
	ran, tried := 0, 0
	for _, version := range testkit.PythonVersions(t) {
		t.Run(version, func(t *testing.T) {
			p, target := running(t, version)
			ran++
			mapped, err := target.FS.Maps(target.PID, false)
			if err != nil {
				t.Fatal(err)
			}
			file, _, err := target.FS.OpenMapped(target.PID, candidates(mapped, "")[0])
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
			if want.gilLocation == gilInInterp { // 3.12 has a pointer too, which the table lacks
				want.gil, want.gilLocation = o.gil, o.gilLocation
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
	if ran > 1 && tried < 3 {
		t.Errorf("only %d of %d interpreters have debugging information that can be read", tried, ran)
	}
}

// segment is memory from address 4,096 on.
type segment []byte

func (s segment) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(s).ReadAt(b, at-4096)
}

// The members of code objects are compared with the offsets, and an endless list of them is refused.
func TestVerifyMembers(t *testing.T) {
	const base, typeAt, membersAt = 4096, 4096, 4096 + 512
	l := Layout{CoCode: 200, CoFile: 8, CoName: 16, CoQualname: 24, CoLines: 32, CoFirst: 40}
	offsets := map[string]uint64{"co_filename": 8, "co_name": 16, "co_qualname": 24, "co_linetable": 32, "co_firstlineno": 40}
	wanted := []string{"co_filename", "co_name", "co_qualname", "co_linetable", "co_firstlineno"}
	others := func(n int) []string { return slices.Repeat([]string{"co_flags"}, n) }
	for name, tt := range map[string]struct {
		members []string
		moved   string // member at another offset
		fits    bool
	}{
		"all":                   {members: wanted, fits: true},
		"the 64th is the last":  {members: append(others(59), wanted...), fits: true},
		"the 65th is the last":  {members: append(others(60), wanted...)},
		"endless":               {members: others(1000)},
		"one missing":           {members: wanted[:4]},
		"one at another offset": {members: wanted, moved: "co_name"},
	} {
		t.Run(name, func(t *testing.T) {
			le := binary.LittleEndian
			m := make(segment, 1<<17)
			le.PutUint64(m[typeAt-base+typeSize:], uint64(l.CoCode))
			le.PutUint64(m[typeAt-base+typeMembers:], membersAt)
			names := membersAt - base + memberBytes*(len(tt.members)+1) // an entry without a name ends the list
			for i, member := range tt.members {
				entry, at := m[membersAt-base+memberBytes*i:], names+maxWanted*i
				copy(m[at:], member)
				le.PutUint64(entry, uint64(base+at))
				le.PutUint64(entry[memberOffset:], offsets[member])
				if member == tt.moved {
					le.PutUint64(entry[memberOffset:], 48)
				}
			}
			err := memory{m}.verifyMembers(&Facts{Layout: l, CodeType: typeAt})
			if fits := err == nil; fits != tt.fits || !fits && !errors.Is(err, ErrMismatch) {
				t.Errorf("got %v, want a fit: %v", err, tt.fits)
			}
		})
	}
}

// The files that are searched are those of a library, a program called python, and the process's own
// program, wherever they are mapped.
func TestCandidates(t *testing.T) {
	const program = "/opt/bin/serve"
	for name, tt := range map[string]struct {
		paths, want []string // in order of address
	}{
		"own program":       {[]string{program, program, "/lib/libc.so.6"}, []string{program}},
		"above a device":    {[]string{"/dev/nvidiactl", "/dev/nvidia0", program, "/lib/libc.so.6"}, []string{program}},
		"below a library":   {[]string{program, "/lib/libpython3.11.so.1.0"}, []string{"/lib/libpython3.11.so.1.0", program}},
		"called python":     {[]string{"/dev/nvidiactl", "/usr/bin/python3.11", program}, []string{"/usr/bin/python3.11", program}},
		"neither is mapped": {[]string{"/dev/nvidiactl", "/lib/libc.so.6"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inodes := map[string]uint64{}
			var mapped []proc.Mapping
			for _, path := range tt.paths {
				if inodes[path] == 0 {
					inodes[path] = uint64(len(inodes) + 1)
				}
				mapped = append(mapped, proc.Mapping{Path: path, Key: proc.Key{Inode: inodes[path]}})
			}
			var got []string
			for _, m := range candidates(mapped, program) {
				got = append(got, m.Path)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// counting counts the reads of memory, and those at one address.
type counting struct {
	Reader
	at        int64
	reads, of int
}

func (c *counting) ReadAt(b []byte, at int64) (int, error) {
	c.reads++
	if at == c.at {
		c.of++
	}
	return c.Reader.ReadAt(b, at)
}

// Verification stops after some threads whose stacks do not fit, and after a number of reads.
func TestVerifyIsBounded(t *testing.T) {
	const base, interp, frame, ids, states = 4096, 4096 + 512, 4096 + 1024, 4096 + 2048, 4096 + 8192
	v := Version{3, 10}
	l := byVersion[v].Layout
	for name, tt := range map[string]struct {
		threads, reads int
		want           int // threads whose stacks are read in the first attempt
		err            error
		slow           bool // further sources are tried
	}{
		"few threads":  {3, maxReads, 3, ErrMismatch, true},
		"many threads": {100, maxReads, maxFailed, ErrMismatch, true},
		"few reads":    {100, 50, 0, errReads, false},
		"more reads":   {100, 1000, maxFailed, errReads, false},
	} {
		t.Run(name, func(t *testing.T) {
			le := binary.LittleEndian
			m := make(segment, 1<<16)
			put := func(at int, v int) { le.PutUint64(m[at-base:], uint64(v)) }
			put(base+int(l.InterpHead), interp)
			put(interp+int(l.InterpThreads), states)
			for i := range tt.threads {
				at, id := states+256*i, ids+8*i
				put(id, id)
				put(at+tsInterp, interp)
				put(at+int(l.TsID), id)
				put(at+int(l.TsFrame), frame) // without a code object
				if i > 0 {
					put(at, at-256)
					put(at-256+tsNext, at)
				}
			}
			read := &counting{Reader: m, at: frame}
			p := &Process{Facts: Facts{Runtime: base, Layout: l}}
			if err := (memory{&limited{read, tt.reads}}).verifyOnce(&p.Facts, 0); err == nil || read.of != tt.want {
				t.Errorf("got %v, %d stacks, want %d", err, read.of, tt.want)
			}
			read.reads = 0
			slow := false
			err := p.settle(memory{&limited{read, tt.reads}}, v, []slowSource{
				{SourceDWARF, func() (offsets, error) { slow = true; return offsets{}, errNoSource }},
			})
			if !errors.Is(err, tt.err) || read.reads > tt.reads || slow != tt.slow {
				t.Errorf("got %v, %d reads, further sources: %v", err, read.reads, slow)
			}
		})
	}
}
