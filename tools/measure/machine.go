package main

import (
	"fmt"
	"os"
	"time"
)

// A run is disturbed if the hypervisor stole more than stolenShare of the CPU time, or if other
// programs used more than othersCPUs CPUs, both on average over the run.
const (
	stolenShare = 0.01
	othersCPUs  = 0.25
	idleWait    = time.Minute // how long a measurement waits for other programs to end
)

// watch observes the use of the machine's CPUs during a run.
type watch struct {
	began time.Time
	at    cpuTimes
}

// cpuTimes is the first line of /proc/stat: all CPUs since the machine started.
type cpuTimes struct{ busy, stolen, total time.Duration }

func readCPUs() (c cpuTimes) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return c
	}
	return parseCPUs(string(text))
}

// parseCPUs parses "cpu user nice system idle iowait irq softirq steal ..." in steps of 10 ms.
func parseCPUs(text string) (c cpuTimes) {
	var label string
	var field [8]int64
	args := []any{&label}
	for i := range field {
		args = append(args, &field[i])
	}
	if _, err := fmt.Sscan(text, args...); err != nil {
		return cpuTimes{}
	}
	for i, n := range field {
		d := time.Duration(n) * 10 * time.Millisecond
		c.total += d
		switch i {
		case 3, 4: // idle, iowait
		case 7:
			c.stolen += d
		default:
			c.busy += d
		}
	}
	return c
}

// waitIdle returns once the CPUs have been nearly idle for a moment, or after a minute.
func waitIdle() watch {
	const moment = 500 * time.Millisecond
	for end := time.Now().Add(idleWait); ; {
		before := readCPUs()
		time.Sleep(moment)
		if readCPUs().busy-before.busy < time.Duration(othersCPUs*float64(moment)) || time.Now().After(end) {
			return watch{time.Now(), readCPUs()}
		}
	}
}

// disturbance returns what disturbed the run that has just ended as the process p, or "".
func (w watch) disturbance(p *os.ProcessState) string {
	return judgeMachine(w.at, readCPUs(), time.Since(w.began), p.UserTime()+p.SystemTime())
}

// judgeMachine compares two readings of the CPUs. own is the CPU time of the run and its children.
func judgeMachine(a, b cpuTimes, wall, own time.Duration) string {
	if stolen := b.stolen - a.stolen; b.total > a.total && float64(stolen) > stolenShare*float64(b.total-a.total) {
		return fmt.Sprintf("the hypervisor took %v of CPU time", stolen)
	}
	if others := b.busy - a.busy - own; float64(others) > othersCPUs*float64(wall) {
		return fmt.Sprintf("other programs used %.2f CPUs", float64(others)/float64(wall))
	}
	return ""
}
