package gpu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// Lines as nvidia-smi prints them.
const (
	h200    = "00000000:19:00.0, 0, GPU-8a56a4bc, Disabled, 143771, 131072, 98, 41, 1815, 3201, 1980, 61, 688.21, 700.00, 0x0000000000000004, 2, 0, NVIDIA H200"
	divided = "00000000:18:00.0, 1, GPU-2ac434d3, Enabled, 81920, 36537, [N/A], [N/A], 1410, 1593, 1410, 33, 87.00, 400.00, 0x0000000000000000, 0, 0, NVIDIA A800-SXM4-80GB"
	spark   = "0000000F:01:00.0, 0, GPU-11, [N/A], [N/A], [N/A], 0, [N/A], 208, [N/A], 3003, 44, 11.20, [N/A], 0x0000000000000001, [N/A], [N/A], NVIDIA GB10"
	laptop  = "00000000:01:00.0, 0, GPU-12, [Not Supported], 4096, 5, ERR!, [Unknown Error], [Insufficient Permissions], N/A, ERR!, ERR!, ERR!, [Not Supported], Not Active, [Not Supported], [Not Supported], GeForce, Max-Q"
	gone    = "00000000:19:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]"
)

func ptr[T any](v T) *T { return &v }

var stateH200 = tick.GPU{Bus: "0000:19:00.0", UUID: "GPU-8a56a4bc", Name: "NVIDIA H200", Throttle: []string{"software power cap"},
	MemTotal: ptr[int64](143771 << 20), MemUsed: ptr[int64](131072 << 20), Busy: ptr(0.98), MemBusy: ptr(0.41), ClockSM: ptr[int64](1815e6), ClockMem: ptr[int64](3201e6),
	ClockSMMax: ptr[int64](1980e6), Temperature: ptr(61.0), Power: ptr(688.21), PowerLimit: ptr(700.0), ECCCorrected: ptr[int64](2), ECCLost: ptr[int64](0)}

func allFields() []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.name)
	}
	return out
}

// Values unknown to nvidia-smi are absent, and never zero.
func TestParseState(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		want       tick.GPU // no Bus: not a line of values
	}{
		{"all is known", h200, stateH200},
		{"divided", divided, tick.GPU{Index: 1, Bus: "0000:18:00.0", UUID: "GPU-2ac434d3", Name: "NVIDIA A800-SXM4-80GB", MIG: true,
			MemTotal: ptr[int64](81920 << 20), MemUsed: ptr[int64](36537 << 20), ClockSM: ptr[int64](1410e6), ClockMem: ptr[int64](1593e6), ClockSMMax: ptr[int64](1410e6),
			Temperature: ptr(33.0), Power: ptr(87.0), PowerLimit: ptr(400.0), ECCCorrected: ptr[int64](0), ECCLost: ptr[int64](0)}},
		{"the machine's memory", spark, tick.GPU{Bus: "000f:01:00.0", UUID: "GPU-11", Name: "NVIDIA GB10", Throttle: []string{"idle"},
			Busy: ptr(0.0), ClockSM: ptr[int64](208e6), ClockSMMax: ptr[int64](3003e6), Temperature: ptr(44.0), Power: ptr(11.2)}},
		{"little is known, a comma in its name", laptop, tick.GPU{Bus: "0000:01:00.0", UUID: "GPU-12", Name: "GeForce, Max-Q", MemTotal: ptr[int64](4096 << 20), MemUsed: ptr[int64](5 << 20)}},
		{"lost", gone, tick.GPU{Index: -1, Bus: "0000:19:00.0", Lost: true}},
		{"several reasons, one of them new", strings.Replace(h200, "0x0000000000000004", "0x8000000000000021", 1), func() tick.GPU {
			g := stateH200
			g.Throttle = []string{"idle", "software thermal slowdown", "0x8000000000000000"}
			return g
		}()},
		{"numbers that are none", "00000000:19:00.0, -1, , , -5, 99999999999999999999, 101, NaN, 1e3, Inf, , 1e9, -3, 0x, 0xg, -1, 1.5, x", tick.GPU{Index: -1, Bus: "0000:19:00.0", Name: "x"}},
		{"no address", strings.Replace(h200, "00000000:19:00.0", "[N/A]", 1), tick.GPU{}},
		{"too few", "00000000:19:00.0, 0, GPU-8a56a4bc", tick.GPU{}},
		{"nothing", "", tick.GPU{}},
		{"words", "Failed to initialize NVML: Driver/library version mismatch", tick.GPU{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseState(allFields(), tt.line)
			if ok != (tt.want.Bus != "") {
				t.Fatalf("got %+v, %v", got, ok)
			}
			if diff := cmp.Diff(tt.want, got); ok && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// timers has the timers of a poll, which the test fires.
type timers struct {
	mu  sync.Mutex
	set map[time.Duration][]chan time.Time
	now time.Time
}

func (c *timers) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	c.set[d] = append(c.set[d], ch)
	return ch
}

func (c *timers) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// pass advances the clock by d, and fires the timers of d.
func (c *timers) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, ch := range c.set[d] {
		ch <- c.now
	}
	delete(c.set, d)
}

// waits reports whether a timer of d is set.
func (c *timers) waits(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.set[d]) > 0
}

// polled starts polling an nvidia-smi that is a shell script, next to the pipe "never", which has
// no writer.
func polled(t *testing.T, script string) (*Poll, *timers, Machine) {
	t.Helper()
	testkit.LeakCheck(t)
	m := machine(t, map[string]string{"proc/driver/nvidia/version": openVersion, "usr/bin/nvidia-smi": "#!/bin/sh\ncd ${0%/*}\nhang() { read x <never; }\n" + script})
	m.Path = "/usr/bin"
	if err := unix.Mkfifo(filepath.Join(m.Root, "usr/bin/never"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &timers{set: map[time.Duration][]chan time.Time{}, now: time.Unix(1_800_000_000, 0)}
	p := m.Poll(PollOptions{Now: c.Now, After: c.After})
	t.Cleanup(p.Close)
	return p, c, m
}

var noTime = cmpopts.IgnoreFields(tick.GPU{}, "Time")

// One process reports all GPUs repeatedly, with the fields that the driver knows, and without the
// agent's environment.
func TestPoll(t *testing.T) {
	t.Setenv("SECRET", "not for nvidia-smi")
	p, c, _ := polled(t, "test -z \"$SECRET$HOME\" || exit 8\necho $$ >>ran\necho '"+strings.Join([]string{divided, h200}, "\n")+"'\nhang")
	testkit.Eventually(t, "the states", func() bool { return len(p.States()) == 2 })
	got := p.States()
	if diff := cmp.Diff(stateH200, got[0], noTime); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got[1].MIG || got[1].Busy != nil || !got[1].Time.Equal(c.Now()) || p.Err() != nil {
		t.Errorf("got %+v, %v", got[1], p.Err())
	}
	c.pass(time.Minute) // stale states are not reported
	if got := p.States(); len(got) != 0 {
		t.Errorf("after a minute: %+v", got)
	}
}

// For each failure of nvidia-smi, the reason is reported, nothing waits for it, and no second one
// runs beside a hung one.
func TestPollFails(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for _, tt := range []struct {
		name, script string
		late         bool // it must be waited for
		want         string
		lost         string // bus of a GPU that is reported as lost
	}{
		{name: "ends", script: "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18", want: "version mismatch"},
		{name: "ends without a word", script: "exit 9", want: "exit status 9"},
		{name: "ends well", script: "echo '" + h200 + "'; exit 0", want: "ended"},
		{name: "says it is lost", script: "echo 'Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU'; exit 15", want: "GPU is lost", lost: "0000:02:00.0"},
		{name: "newer words", script: "echo 'Unable to determine the device handle for GPU0000:20:00.0: Unknown Error'; exit 255", want: "Unknown Error", lost: "0000:20:00.0"},
		{name: "newest words", script: "echo 'Unable to determine the device handle for GPU1: 0000:4E:00.0: Unknown Error'; exit 255", want: "Unknown Error", lost: "0000:4e:00.0"},
		{name: "is lost while it is polled", script: "echo '" + h200 + "\n" + gone + "'; exit 15", want: "exit status 15", lost: "0000:19:00.0"},
		{name: "never ends its line", script: "echo " + long + "; hang", want: "too long"},
		{name: "does not stop talking", script: "while :; do echo nonsense; done", want: "more than requested"},
		{name: "hangs", script: "hang", late: true, want: "does not answer"},
		{name: "hangs after a while", script: "echo '" + h200 + "'; hang", late: true, want: "does not answer"},
		{name: "cannot be run", script: "", want: "ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, c, m := polled(t, "echo >>ran\n"+tt.script)
			ran := func() int {
				b, err := os.ReadFile(filepath.Join(m.Root, "usr/bin/ran"))
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
				return len(b)
			}
			testkit.Eventually(t, "it runs", func() bool { return ran() == 1 })
			testkit.Eventually(t, "a reason", func() bool {
				if tt.late { // each line restarts its patience
					c.pass(patience)
				}
				return p.Err() != nil && c.waits(again)
			})
			if err := p.Err(); !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Why() = %v, want %q", err, tt.want)
			}
			if got := p.States(); (tt.lost != "") != (len(got) == 1 && got[0].Lost && got[0].Bus == tt.lost) {
				t.Errorf("states %+v", got)
			}
			if n := ran(); n != 1 {
				t.Errorf("it ran %d times", n)
			}
			c.pass(again) // then it is started again
			testkit.Eventually(t, "the second", func() bool { return ran() == 2 })
		})
	}
}

// A field that this nvidia-smi does not know is dropped at once, or requested by its older name.
func TestPollOldTool(t *testing.T) {
	p, c, m := polled(t, `echo "$@" >asked
case $1 in
*clocks_event_reasons.active*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; echo; exit 2;;
*mig.mode.current*) echo 'Field "mig.mode.current" is not a valid field to query.'; echo; exit 2;;
esac
echo '`+strings.Replace(h200, "Disabled, ", "", 1)+`'
hang`)
	for range 2 {
		testkit.Eventually(t, "it ends", func() bool { return c.waits(0) })
		c.pass(0)
	}
	testkit.Eventually(t, "the state", func() bool { return len(p.States()) == 1 })
	if diff := cmp.Diff(stateH200, p.States()[0], noTime); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	asked, err := os.ReadFile(filepath.Join(m.Root, "usr/bin/asked"))
	if s := string(asked); err != nil || !strings.Contains(s, ",clocks_throttle_reasons.active,") || strings.Contains(s, "mig.") || !strings.HasSuffix(s, " --format=csv,noheader,nounits --loop-ms=2000\n") {
		t.Errorf("asked %q, %v", s, err)
	}
}

// Without a driver nothing is started, and there is no error. With one, a missing nvidia-smi is
// reported.
func TestPollWithout(t *testing.T) {
	p := machine(t, map[string]string{"usr/bin/nvidia-smi": "#!/bin/sh\nexit 1\n"}).Poll(PollOptions{})
	if p.Close(); p.Err() != nil || len(p.States()) != 0 {
		t.Errorf("without a driver: %v, %v", p.Err(), p.States())
	}
	m := machine(t, map[string]string{"proc/driver/nvidia/version": openVersion})
	m.Path = "/nowhere"
	p = m.Poll(PollOptions{})
	if p.Close(); !errors.Is(p.Err(), ErrNoTool) {
		t.Errorf("without nvidia-smi: %v", p.Err())
	}
}

// A driver that is loaded after the start is found, also if nvidia-smi comes later still, and its end
// is no error.
func TestPollFindsALaterDriver(t *testing.T) {
	testkit.LeakCheck(t)
	m := machine(t, map[string]string{"usr/bin/other": "#!/bin/sh\n"})
	m.Path = "/usr/bin"
	c := &timers{set: map[time.Duration][]chan time.Time{}, now: time.Unix(1_800_000_000, 0)}
	p := m.Poll(PollOptions{Now: c.Now, After: c.After})
	t.Cleanup(p.Close)
	look := func() {
		t.Helper()
		testkit.Eventually(t, "the next look", func() bool { return c.waits(again) })
		c.pass(again)
		testkit.Eventually(t, "its result", func() bool { return c.waits(again) || c.waits(patience) })
	}
	version, smi := filepath.Join(m.Root, "proc/driver/nvidia/version"), filepath.Join(m.Root, "usr/bin/nvidia-smi")
	look()
	if p.Err() != nil {
		t.Errorf("without a driver: %v", p.Err())
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(version), 0o755), os.WriteFile(version, []byte(openVersion), 0o644)); err != nil {
		t.Fatal(err)
	}
	look()
	if !errors.Is(p.Err(), ErrNoTool) {
		t.Errorf("without nvidia-smi: %v", p.Err())
	}
	if err := os.WriteFile(smi, []byte("#!/bin/sh\necho '"+h200+"'\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	look()
	testkit.Eventually(t, "the state", func() bool { return len(p.States()) == 1 })
	if err := errors.Join(os.Remove(version), os.Remove(smi)); err != nil {
		t.Fatal(err)
	}
	look()
	testkit.Eventually(t, "no error", func() bool { return p.Err() == nil })
}

// The program is found in the path, else where it is installed, else in the driver's container or
// on the host, and never in a place that another user can write.
func TestFind(t *testing.T) {
	const program = "#!/bin/sh\n"
	driver, host := "run/nvidia/driver/usr/bin/nvidia-smi", "proc/1/root/usr/bin/nvidia-smi"
	for _, tt := range []struct {
		name   string
		files  []string
		change func(root string) error
		want   string // "ROOT PATH"; "": none
		err    error
	}{
		{name: "nowhere"},
		{name: "in the path first", files: []string{"opt/mine/nvidia-smi", "usr/bin/nvidia-smi"}, want: " opt/mine/nvidia-smi"},
		{name: "where it is installed", files: []string{"usr/local/nvidia/bin/nvidia-smi", driver}, want: " usr/local/nvidia/bin/nvidia-smi"},
		{name: "the driver's container", files: []string{driver, host}, want: "run/nvidia/driver /usr/bin/nvidia-smi"},
		{name: "the host's", files: []string{host}, want: "proc/1/root /usr/bin/nvidia-smi"},
		{name: "no program", files: []string{"usr/bin/nvidia-smi"}, change: func(root string) error { return os.Chmod(root+"/usr/bin/nvidia-smi", 0o644) }},
		{name: "a folder", files: []string{"usr/bin/nvidia-smi/x"}},
		{name: "others may write it", files: []string{"usr/bin/nvidia-smi"}, change: func(root string) error { return os.Chmod(root+"/usr/bin/nvidia-smi", 0o757) }, err: ErrUntrusted},
		{name: "others may write its folder", files: []string{"opt/mine/nvidia-smi"}, change: func(root string) error { return os.Chmod(root+"/opt", 0o777) }, err: ErrUntrusted},
		{name: "the next one will do", files: []string{"opt/mine/nvidia-smi", driver}, change: func(root string) error { return os.Chmod(root+"/opt", 0o777) }, want: "run/nvidia/driver /usr/bin/nvidia-smi"},
		{name: "a link that would lead out", files: []string{"run/nvidia/driver/usr/x", "usr/bin/other", "run/nvidia/driver/usr/bin/other"},
			change: func(root string) error { return os.Symlink("/usr/bin/other", root+"/"+driver) }, want: "run/nvidia/driver /usr/bin/nvidia-smi"},
		{name: "links in a ring", files: []string{"usr/bin/x"}, change: func(root string) error { return os.Symlink("nvidia-smi", root+"/usr/bin/nvidia-smi") }},
		{name: "another's", files: []string{"usr/bin/nvidia-smi"}, change: func(root string) error { return os.Chown(root+"/usr/bin/nvidia-smi", 12345, 0) }, err: ErrUntrusted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.NeedRoot(t) // for the last
			files := map[string]string{}
			for _, name := range tt.files {
				files[name] = program
			}
			m := machine(t, files)
			m.Path = "relative:/opt/mine::/nowhere"
			if tt.change != nil {
				if err := tt.change(m.Root); err != nil {
					t.Fatal(err)
				}
			}
			got, err := m.find()
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			where := ""
			if got != nil {
				where = fmt.Sprintf("%s %s", strings.TrimPrefix(got.root, m.Root+"/"), strings.TrimPrefix(got.path, m.Root+"/"))
			}
			if where != tt.want {
				t.Errorf("found %q, want %q", where, tt.want)
			}
		})
	}
}

// On a machine with a GPU, the real nvidia-smi is parsed.
func TestPollRealGPU(t *testing.T) {
	testkit.NeedGPU(t)
	p := Machine{}.Poll(PollOptions{Every: 100 * time.Millisecond})
	defer p.Close()
	testkit.Eventually(t, "a state", func() bool { return len(p.States()) > 0 })
	for _, g := range p.States() {
		t.Logf("%+v", g)
		if g.Name == "" || g.MemTotal == nil || g.Temperature == nil || g.Lost {
			t.Errorf("%+v", g)
		}
	}
}

func FuzzPoll(f *testing.F) {
	for _, line := range []string{h200, divided, spark, laptop, gone, "Unable to determine the device handle for GPU0000:20:00.0: Unknown Error", `Field "x" is not a valid field to query.`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := &Poll{o: PollOptions{Every: time.Second, Now: time.Now}, states: map[string]tick.GPU{}, lack: map[string]bool{}}
		lines := make(chan string)
		quit := make(chan struct{})
		go func() {
			defer close(lines)
			_ = readLines(io.LimitReader(strings.NewReader(text), 1<<20), lines, quit)
		}()
		for line := range lines {
			p.take(allFields(), line)
		}
		for _, g := range p.States() {
			if normalBus(g.Bus) != g.Bus || g.Busy != nil && *g.Busy > 1 {
				t.Errorf("%+v", g)
			}
		}
	})
}
