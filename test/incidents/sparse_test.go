//go:build measure || smoke

package incidents

import (
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

var tapeDir = flag.String("tapes", "", "directory to write the tapes of right and undisturbed runs to (runs are made alone, with few launches)")

// fewer is the factor by which -tapes divides the launches of a step. Steps with more than
// mostLaunches belong to a fault that needs that many.
const (
	fewer        = 4
	mostLaunches = 50
)

var launches = regexp.MustCompile(`launch (\d+) (\d+)`)

// fewerLaunches returns a quarter of n launches, of kernels that together take as long as n of us
// microseconds.
func fewerLaunches(n, us int) (int, int) {
	if n < fewer || n > mostLaunches {
		return n, us
	}
	return n / fewer, us * n / (n / fewer)
}

// thinned returns a victim's script; with -tapes it has fewer launches.
func thinned(script string) string {
	if *tapeDir == "" {
		return script
	}
	return launches.ReplaceAllStringFunc(script, func(text string) string {
		m := launches.FindStringSubmatch(text)
		n, _ := strconv.Atoi(m[1])
		us, _ := strconv.Atoi(m[2])
		n, us = fewerLaunches(n, us)
		return fmt.Sprintf("launch %d %d", n, us)
	})
}

// thinnedArgs returns the arguments of the loop program; with -tapes it has fewer launches.
func thinnedArgs(args []string) []string {
	count, length := slices.Index(args, "--launches"), slices.Index(args, "--kernel-us")
	if *tapeDir == "" || count < 0 || length < 0 {
		return args
	}
	n, err := strconv.Atoi(args[count+1])
	us, err2 := strconv.Atoi(args[length+1])
	if err != nil || err2 != nil {
		return args
	}
	n, us = fewerLaunches(n, us)
	args = slices.Clone(args)
	args[count+1], args[length+1] = strconv.Itoa(n), strconv.Itoa(us)
	return args
}
