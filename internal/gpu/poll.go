package gpu

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ingero/internal/tick"
)

// PollOptions configures the polling of GPUs. The zero value suits most uses.
type PollOptions struct {
	Every time.Duration    // 0: 2 s
	Now   func() time.Time // nil: the wall clock
	// After delivers once, after d; nil: [time.After].
	After func(d time.Duration) <-chan time.Time
}

const (
	// patience is the longest silence of nvidia-smi.
	patience = 20 * time.Second
	// again is the pause after it has ended, and between looks for the driver or nvidia-smi while there
	// is none.
	again = 10 * time.Second
	// maxGPUs bounds the reported GPUs, and the lines in one interval.
	maxGPUs = 256
	// maxLine bounds a line, in bytes.
	maxLine = 4 << 10
)

// ErrNoTool reports that there is no nvidia-smi, so that only the driver's files are used.
var ErrNoTool = errors.New("nvidia-smi was not found")

// Poll polls the state of the GPUs from one continuously running nvidia-smi. If that hangs, it is
// left alone, no other is started, and nothing waits for it. Methods are safe for concurrent use.
type Poll struct {
	m    Machine
	o    PollOptions
	stop chan struct{}
	done chan struct{}
	once sync.Once

	mu     sync.Mutex
	states map[string]tick.GPU // by bus
	err    error
	lack   map[string]bool // fields unknown to this nvidia-smi
}

// Poll starts polling. Without a driver it starts nothing until one is loaded.
func (m Machine) Poll(o PollOptions) *Poll {
	if o.Every == 0 {
		o.Every = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.After == nil {
		o.After = time.After
	}
	p := &Poll{m: m, o: o, stop: make(chan struct{}), done: make(chan struct{}), states: map[string]tick.GPU{}, lack: map[string]bool{}}
	var t *tool
	t, p.err = m.installed()
	go p.run(t)
	return p
}

// installed looks for nvidia-smi if the driver is loaded; nil: not found. Without a driver, which may be
// loaded later, there is no error.
func (m Machine) installed() (*tool, error) {
	if !m.Loaded() {
		return nil, nil
	}
	t, err := m.find()
	if t == nil {
		err = cmp.Or(err, ErrNoTool)
	}
	return t, err
}

// Loaded reports whether the driver is loaded.
func (m Machine) Loaded() bool {
	return m.exists("/proc/driver/nvidia/version") || m.exists("/sys/module/nvidia/version") || m.exists("/dev/dxg")
}

// States returns the current states of the GPUs, by index, without stale ones.
func (p *Poll) States() []tick.GPU {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []tick.GPU
	for bus, g := range p.states {
		fresh := 3*p.o.Every + time.Second
		if g.Lost { // nvidia-smi ends then, and is restarted after a pause
			fresh = again + patience
		}
		if age := p.o.Now().Sub(g.Time); age <= fresh {
			out = append(out, g)
		} else if age > time.Hour {
			delete(p.states, bus)
		}
	}
	slices.SortFunc(out, func(a, b tick.GPU) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Bus, b.Bus)) })
	return out
}

// Err returns why the states are unknown, nil if they are known, or there is no driver.
func (p *Poll) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close stops polling. A process that hangs in the driver cannot be killed: it is left behind.
// Close is idempotent.
func (p *Poll) Close() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

func (p *Poll) run(t *tool) {
	defer close(p.done)
	// The process ends with the thread that started it, which is this one.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		wait := again
		if t != nil {
			err := p.session(t)
			if errors.Is(err, errField) { // without that field it may succeed
				wait = 0
			}
			p.failed(err)
		}
		select {
		case <-p.stop:
			return
		case <-p.o.After(wait):
		}
		if wait == 0 {
			continue
		}
		p.mu.Lock()
		clear(p.lack) // another nvidia-smi may have them
		p.mu.Unlock()
		next, err := p.m.installed() // the driver may have been loaded, unloaded or replaced
		if t = next; t == nil {
			p.failed(err)
		}
	}
}

func (p *Poll) failed(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = why
}

var errField = errors.New("it rejects a field")

// session runs nvidia-smi until it ends.
func (p *Poll) session(t *tool) error {
	fields := p.fields()
	cmd := exec.Command(t.path, "--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits",
		fmt.Sprintf("--loop-ms=%d", p.o.Every.Milliseconds()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	t.prepare(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Stderr = cmd.Stdout // it prints errors there
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", smiName, err)
	}
	lines, ended := make(chan string), make(chan error, 1)
	quit := make(chan struct{})
	go func() {
		err := readLines(out, lines, quit)
		if err != nil {
			kill(cmd)
		}
		ended <- cmp.Or(err, cmd.Wait())
	}()
	err = p.listen(fields, lines, ended)
	kill(cmd)
	close(quit)
	if !errors.Is(err, errEnded) {
		p.failed(err)
		// Nothing else is started while this one exists.
		select {
		case <-ended:
		case <-p.stop:
		}
	}
	return err
}

// kill kills a process and its children, which have their own process group.
func kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// readLines passes lines on until there are no more, or quit is closed.
func readLines(r io.Reader, lines chan<- string, quit <-chan struct{}) error {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, maxLine), maxLine)
	for s.Scan() {
		select {
		case lines <- s.Text():
		case <-quit:
			return nil
		}
	}
	return s.Err()
}

var errEnded = errors.New("nvidia-smi has ended")

// listen reads lines until there is a reason to stop.
func (p *Poll) listen(fields []string, lines <-chan string, ended <-chan error) error {
	late := p.o.After(patience)
	interval, said := p.o.After(p.o.Every), 0
	last := ""
	for {
		select {
		case <-p.stop:
			return errors.New("closed")
		case err := <-ended:
			switch {
			case strings.Contains(last, "is not a valid field"):
				return errors.Join(errEnded, errField)
			case err == nil:
				err = errors.New(last)
			case last != "":
				err = fmt.Errorf("%w: %s", err, last)
			}
			return fmt.Errorf("%w: %w", errEnded, err)
		case <-late:
			return ErrNoAnswer
		case <-interval:
			interval, said = p.o.After(p.o.Every), 0
		case line := <-lines:
			if said++; said > 4*maxGPUs {
				return fmt.Errorf("%s printed more than requested", smiName)
			}
			switch {
			case p.take(fields, line):
				late = p.o.After(patience)
			case strings.TrimSpace(line) != "":
				last = fmt.Sprintf("%.200q", line)
			}
		}
	}
}

var (
	badField = regexp.MustCompile(`Field "([a-z_.]+)" is not a valid field`)
	// A GPU without its handle is unusable, whatever the reason.
	lostLine = regexp.MustCompile(`device handle for GPU ?(?:[0-9]+: )?([0-9A-Fa-f]+:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])`)
)

// take processes a line. It returns false if the line is not a GPU's.
func (p *Poll) take(fields []string, line string) bool {
	now := p.o.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := badField.FindStringSubmatch(line); m != nil {
		p.lack[m[1]] = true
		return false
	}
	if m := lostLine.FindStringSubmatch(line); m != nil {
		p.lose(tick.GPU{Time: now, Index: -1, Bus: normalBus(m[1])})
		return false
	}
	g, ok := parseState(fields, strings.ToValidUTF8(line, "?"))
	if !ok {
		return false
	}
	if g.Time, p.err = now, nil; g.Lost {
		p.lose(g)
	} else {
		p.put(g)
	}
	return true
}

// lose records that a GPU is lost. The line then lacks its name and all other values.
func (p *Poll) lose(g tick.GPU) {
	if was, ok := p.states[g.Bus]; ok {
		g.Index, g.UUID, g.Name = was.Index, was.UUID, was.Name
	}
	if g.Lost = true; g.Bus != "" {
		p.put(g)
	}
}

func (p *Poll) put(g tick.GPU) {
	if _, ok := p.states[g.Bus]; ok || len(p.states) < maxGPUs {
		p.states[g.Bus] = g
	}
}
