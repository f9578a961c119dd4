package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// invoker is the user behind the command: the user who called sudo, else the user of this
// process.
type invoker struct {
	UID, GID   uint32
	Name, Home string
	Sudo       bool // this process is root, started by sudo
}

// invoker returns the invoker. It trusts SUDO_UID and SUDO_GID only if this process is root.
func (e *Env) invoker() invoker {
	who := invoker{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if os.Geteuid() == 0 {
		uid, err1 := strconv.ParseUint(e.Getenv("SUDO_UID"), 10, 32)
		gid, err2 := strconv.ParseUint(e.Getenv("SUDO_GID"), 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			who.UID, who.GID, who.Sudo = uint32(uid), uint32(gid), true
		}
	}
	if u, err := user.LookupId(fmt.Sprint(who.UID)); err == nil {
		who.Name, who.Home = u.Username, u.HomeDir
	} else if who.Sudo {
		who.Name = e.Getenv("SUDO_USER") // a user from a directory service, not in /etc/passwd
	}
	return who
}

// credential returns the credential for the invoker's programs, nil if this process already
// runs as the invoker.
func (w invoker) credential() *syscall.Credential {
	if !w.Sudo {
		return nil
	}
	c := &syscall.Credential{Uid: w.UID, Gid: w.GID, Groups: []uint32{w.GID}}
	if u, err := user.LookupId(fmt.Sprint(w.UID)); err == nil {
		ids, _ := u.GroupIds()
		for _, id := range ids {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil && !slices.Contains(c.Groups, uint32(n)) {
				c.Groups = append(c.Groups, uint32(n))
			}
		}
	}
	return c
}

// attributes returns the process attributes for the invoker's programs.
func (w invoker) attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: w.credential()}
}

// sudoSets lists the variables that sudo sets for root.
var sudoSets = map[string]bool{"PATH": true, "HOME": true, "MAIL": true, "SHELL": true, "USER": true, "LOGNAME": true, "USERNAME": true}

// environment returns the environment for the invoker's programs. sudo removes most variables
// (PATH, LD_LIBRARY_PATH, PYTHONPATH, VIRTUAL_ENV). environment restores them from before, the
// environment of the sudo process: the program runs as the user who set them. Variables set
// explicitly for this process stay.
func (w invoker) environment(own, before []string) []string {
	if !w.Sudo {
		return own
	}
	out := make(map[string]string, len(own)+len(before))
	var order []string
	set := func(name, value string) {
		if _, ok := out[name]; !ok {
			order = append(order, name)
		}
		out[name] = value
	}
	for _, kv := range before {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			set(name, value)
		}
	}
	for _, kv := range own {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.HasPrefix(name, "SUDO_") {
			continue
		}
		if _, theirs := out[name]; sudoSets[name] && (theirs || name != "PATH") {
			continue // set by sudo for root
		}
		set(name, value)
	}
	for name, value := range map[string]string{"HOME": w.Home, "USER": w.Name, "LOGNAME": w.Name} {
		if value != "" {
			set(name, value)
		}
	}
	env := make([]string, 0, len(order))
	for _, name := range order {
		env = append(env, name+"="+out[name])
	}
	slices.Sort(env)
	return env
}

// sudoEnvironment returns the environment of the sudo process among this process's ancestors,
// nil if there is none.
func sudoEnvironment() []string {
	const highest = 8 // maximum number of ancestors; sudo is one or two above
	pid := os.Getppid()
	for range highest {
		comm, ppid, err := ancestor(pid)
		if err != nil || pid <= 1 {
			return nil
		}
		if comm == "sudo" {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil {
				return nil
			}
			return strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		}
		pid = ppid
	}
	return nil
}

// ancestor reads a process's name and parent from /proc/PID/stat.
func ancestor(pid int) (comm string, ppid int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return "", 0, fmt.Errorf("/proc/%d/stat: no name", pid)
	}
	f := strings.Fields(string(text[end+1:]))
	if len(f) < 2 {
		return "", 0, fmt.Errorf("/proc/%d/stat: no parent", pid)
	}
	ppid, err = strconv.Atoi(f[1])
	return string(text[open+1 : end]), ppid, err
}
