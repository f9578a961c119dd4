// Idle measures the cost of an agent with nothing to trace: the share of a CPU that `ingero trace`
// takes while other programs fork or exec. The benchmarks switches and overhead measure what its
// BPF programs cost those programs.
//
// It needs root, bash, and the agent (make build).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"ingero/benchmarks/figure"
)

// life is the script of the other programs: wait for a turn, then start a child.
const life = `exec 3<> <(:); trap 'exit 0' TERM; while :; do read -t %g -u 3; %s; done`

var neighbours = []struct{ name, does string }{
	{"none", ""},
	{"that fork", "(:)"},
	{"that run programs", "/bin/true"},
}

func main() {
	agent := flag.String("agent", "bin/ingero", "the agent")
	others := flag.Int("others", 200, "processes that have nothing to do with it")
	rate := flag.Float64("rate", 100, "children that they start a second, together")
	rounds := flag.Int("rounds", 5, "rounds")
	length := flag.Duration("length", 10*time.Second, "of each round")
	flag.Parse()
	fmt.Printf("Share of a CPU that the agent takes beside %d processes, %g children a second: median (range) of %d rounds of %v\n", *others, *rate, *rounds, *length)
	for _, n := range neighbours {
		share, err := measure(*agent, n.does, *others, float64(*others) / *rate, *rounds, *length)
		if err != nil {
			fmt.Fprintln(os.Stderr, "idle:", err)
			os.Exit(1)
		}
		fmt.Printf("%-20s %s %%\n", n.name, share.Text("%.2f"))
		figure.Report("beside others: "+n.name, share, "%")
	}
}

func measure(agent, does string, others int, every float64, rounds int, length time.Duration) (share figure.Spread, err error) {
	if does != "" {
		stop, err := start(others, exec.Command("bash", "-c", fmt.Sprintf(life, every, does)).Args, every)
		defer stop()
		if err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(agent, "trace", "--record=false")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Signal(syscall.SIGINT) }()
	time.Sleep(5 * time.Second) // let the agent start
	for range rounds {
		before, err := figure.CPU(cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		time.Sleep(length)
		after, err := figure.CPU(cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		share = append(share, 100*float64(after-before)/float64(time.Since(began)))
	}
	return share, nil
}

// start starts programs, evenly over the interval in which each has one turn.
func start(n int, args []string, every float64) (stop func(), err error) {
	var all []*exec.Cmd
	stop = func() {
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range n {
		c := exec.Command(args[0], args[1:]...)
		if err := c.Start(); err != nil {
			return stop, err
		}
		all = append(all, c)
		time.Sleep(time.Duration(every / float64(n) * float64(time.Second)))
	}
	return stop, nil
}
