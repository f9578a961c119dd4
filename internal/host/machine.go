package host

import (
	"bytes"
	"strconv"
	"time"

	"ingero/internal/tick"
)

// machineFiles lists the files on the whole machine.
var machineFiles = []struct {
	what  string
	path  []string
	do    string // remedy for its absence
	parse func(p *Poller, b []byte)
}{
	{"cpu pressure", []string{"proc", "pressure", "cpu"}, psi, pressure(tick.HostCPUPressure, 0)},
	{"memory pressure", []string{"proc", "pressure", "memory"}, psi, pressure(tick.HostMemoryPressure, tick.HostMemoryFull)},
	{"io pressure", []string{"proc", "pressure", "io"}, psi, pressure(tick.HostIOPressure, tick.HostIOFull)},
	{"swap", []string{"proc", "vmstat"}, "", (*Poller).swap},
}

const psi = ": boot with psi=1 to have it"

// machine reads all machine files.
func (p *Poller) machine() {
	for i := range machineFiles {
		if b := p.read(machineFiles[i].path...); b != nil {
			machineFiles[i].parse(p, b)
		}
	}
}

// pressure returns a parser of a PSI file (Documentation/accounting/psi.rst), whose totals are in
// us.
func pressure(some, full tick.HostEvent) func(*Poller, []byte) {
	return func(p *Poller, b []byte) { p.pressure(some, full, "", b) }
}

func (p *Poller) pressure(some, full tick.HostEvent, object string, b []byte) {
	for line := range bytes.Lines(b) {
		kind := some
		switch word, _, _ := bytes.Cut(line, []byte(" ")); string(word) {
		case "some":
		case "full":
			kind = full
		default:
			continue
		}
		us, ok := numberAfter(line, " total=")
		if kind != 0 && ok {
			p.note(tick.HostKey{Kind: kind, Object: object}, 0, 0, us*uint64(time.Microsecond), false)
		}
	}
}

// userTick is the unit of times in /proc/PID/stat: USER_HZ is 100 on all supported architectures.
const userTick = uint64(time.Second / 100)

// swap reads /proc/vmstat, which counts pages.
func (p *Poller) swap(b []byte) {
	for kind, key := range map[tick.HostEvent]string{tick.HostSwapIn: "pswpin ", tick.HostSwapOut: "pswpout "} {
		if v, ok := field(b, key); ok {
			if n, ok := number(v); ok {
				p.note(tick.HostKey{Kind: kind}, n, n*pageBytes, 0, false)
			}
		}
	}
}

// process reads /proc/PID/stat. The command may contain spaces and parentheses, so the last
// parenthesis ends it.
func (p *Poller) process(pid uint32) {
	p.affinity(pid)
	const majflt, start = 12 - 3, 22 - 3 // fields after the command are numbered from 3
	b := p.read("proc", pidName(pid), "stat")
	at := bytes.LastIndexByte(b, ')')
	if at < 0 {
		return
	}
	words := bytes.Fields(b[at+1:])
	if len(words) <= start {
		return
	}
	faults, ok := number(words[majflt])
	since, ok2 := number(words[start])
	if ok && ok2 {
		p.note(tick.HostKey{Kind: tick.HostMajorFault, PID: pid}, faults, 0, 0, time.Duration(since*userTick) >= p.Boot)
	}
}

// field returns the text after a key at the start of a line.
func field(b []byte, key string) ([]byte, bool) {
	for line := range bytes.Lines(b) {
		if v, ok := bytes.CutPrefix(line, []byte(key)); ok {
			return bytes.TrimSpace(v), true
		}
	}
	return nil, false
}

// number parses a decimal number; it rejects values that no real counter reaches.
func number(b []byte) (uint64, bool) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil && n < 1<<62
}

func numberAfter(line []byte, key string) (uint64, bool) {
	_, v, ok := bytes.Cut(line, []byte(key))
	if !ok {
		return 0, false
	}
	return number(v)
}
