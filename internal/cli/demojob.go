package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ingero/internal/gpu"
	"ingero/sim"
)

// gpuScript does on a real GPU what the programs of sim do on the simulated one.
const gpuScript = "gpu.py"

// launch prepares the job and the program beside it. On an error, it also returns the
// processes launched so far.
func (d *demo) launch(dir string) (jobs []*launched, err error) {
	if err := os.Chmod(dir, 0o755); err != nil { // the job runs as the user who called sudo
		return nil, err
	}
	commands, err := d.commands(dir)
	if err != nil {
		return nil, err
	}
	env := []string{"PATH=/usr/bin:/bin"}
	if path := d.env.Getenv("LD_LIBRARY_PATH"); d.gpu && path != "" {
		env = append(env, "LD_LIBRARY_PATH="+path)
	}
	if !d.spins { // block in synchronizations, so that the job needs little CPU
		env = append(env, "INGERO_SIM_SYNC=block")
	}
	if len(d.beside) > 0 { // both programs share one simulated GPU
		share := filepath.Join(dir, "share")
		if err := errors.Join(os.WriteFile(share, nil, 0o600), os.Chmod(share, 0o666)); err != nil {
			return nil, err
		}
		env = append(env, "INGERO_SIM_SHARE="+share)
	}
	for _, args := range commands {
		l, err := launch(&exec.Cmd{Path: args[0], Args: args, Dir: dir, Env: env, SysProcAttr: d.env.invoker().attributes()})
		if err != nil {
			return jobs, fmt.Errorf("run the job: %w", err)
		}
		jobs = append(jobs, l)
	}
	return jobs, nil
}

// commands returns the command lines of the job and of the program beside it.
func (d *demo) commands(dir string) ([][]string, error) {
	commands := [][]string{d.program}
	if len(d.beside) > 0 {
		commands = append(commands, d.beside)
	}
	path := func(program string) string { return filepath.Join(dir, program) }
	if d.gpu {
		python, err := exec.LookPath("python3")
		if err != nil {
			return nil, &problem{What: "python3 is not installed, and the job requires it to use the GPU", Do: "install python3, or omit --gpu", Err: err}
		}
		text, err := demoFiles.ReadFile("demo/" + gpuScript)
		if err == nil {
			err = os.WriteFile(path(gpuScript), text, 0o644)
		}
		if err != nil {
			return nil, err
		}
		for i := range commands {
			commands[i] = append([]string{python, path(gpuScript)}, d.onGPU...)
		}
	} else {
		stack, err := sim.Extract(dir)
		if err != nil {
			return nil, err
		}
		for i := range commands {
			commands[i] = append([]string{stack.Program(commands[i][0])}, commands[i][1:]...)
		}
	}
	seconds := strconv.Itoa(int((d.duration + time.Second - 1) / time.Second))
	for i := range commands {
		commands[i] = append(commands[i], "--seconds", seconds)
		if d.cpu >= 0 {
			commands[i] = append(commands[i], "--pin", strconv.Itoa(d.cpu))
		}
	}
	return commands, nil
}

// gpuText lists the machine's GPUs in one line.
func gpuText(info *gpu.Info) string {
	if len(info.GPUs) == 0 {
		return "none found; the simulated GPU works without one"
	}
	var names []string
	for _, g := range info.GPUs {
		if name := orElse(g.Model, g.Bus); len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	s := fmt.Sprintf("%s (%d)", strings.Join(names, ", "), len(info.GPUs))
	if info.Driver.Version != "" {
		s += ", driver " + info.Driver.Version
	}
	return s + "; to use it: --gpu"
}

// disturb causes the fault in the second third of the demonstration: a hog on the job's CPU,
// or another program on its GPU. The returned channel is closed when the fault is over.
func (d *demo) disturb(ctx context.Context, dir string, beside []*launched, v *view) <-chan error {
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		if len(beside) == 0 && d.hog.threads == 0 || !wait(ctx, d.duration/3) {
			return
		}
		var said []string
		for _, b := range beside {
			b.run()
			said = append(said, fmt.Sprintf("Another program uses the GPU: process %d", b.pid()))
		}
		var taker *exec.Cmd
		if d.hog.threads > 0 {
			var err error
			if taker, err = startHog(dir, d.cpu, d.duration/3, d.hog); err != nil {
				ended <- fmt.Errorf("start the hog: %w", err)
				return
			}
			d.own.add(uint32(taker.Process.Pid))
			said = append(said, fmt.Sprintf("A hog starts on CPU %d, where the job runs: process %d", d.cpu, taker.Process.Pid))
		}
		if d.table {
			v.printLine(time.Now().Format("15:04:05") + "  " + strings.Join(said, "; "))
		}
		_ = wait(ctx, d.duration/3)
		for _, b := range beside {
			b.kill()
		}
		if taker == nil {
			return
		}
		if ctx.Err() != nil { // otherwise the hog ends by itself
			_ = taker.Process.Kill()
		}
		_ = taker.Wait()
	}()
	return ended
}

// wait waits for d or until ctx ends, and reports whether d has passed.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
