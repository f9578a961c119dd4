//go:build measure || smoke

package incidents

import (
	"fmt"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

// peer starts the victim's peer.
func peer(r *run) {
	r.t.Helper()
	r.network = r.control("unified")
	r.peer = r.startFault("peer -1", r.all, r.network)
	r.peer.Send("go")
	r.args = append(r.args, "port="+strings.TrimPrefix(r.peer.Line("port "), "port "))
}

// slowPeer returns a fault that delays the peer's answers.
func slowPeer(late time.Duration) func(*run) disturber {
	return func(r *run) disturber {
		r.peer.Send(fmt.Sprint(late.Milliseconds()))
		r.peer.Line("done")
		return disturber{pids: []int{r.peer.PID()}, end: func() {
			r.peer.Send("0")
			r.peer.Line("done")
		}}
	}
}

// lossy returns a fault that drops a share of the packets to the peer, in percent.
func lossy(percent int32) func(*run) disturber {
	return func(r *run) disturber {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "lose", Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetIngress, License: "GPL",
			Instructions: asm.Instructions{
				asm.FnGetPrandomU32.Call(),
				asm.Mod.Imm32(asm.R0, 100),
				asm.Mov.Imm(asm.R1, 1),
				asm.JGE.Imm(asm.R0, percent, "keep"),
				asm.Mov.Imm(asm.R1, 0),
				asm.Mov.Reg(asm.R0, asm.R1).WithSymbol("keep"),
				asm.Return(),
			}})
		if err != nil {
			r.t.Fatal(err)
		}
		l, err := link.AttachCgroup(link.CgroupOptions{Path: string(r.network), Attach: ebpf.AttachCGroupInetIngress, Program: p})
		if err != nil {
			r.t.Fatal(err)
		}
		return disturber{end: func() {
			_, _ = l.Close(), p.Close()
		}}
	}
}

// asking is a script that asks a peer in each step.
const asking = "ask 0; copy 65536; launch 8 400; sync"

var netRows = []row{
	{name: "a peer that answers late", plan: func(s *seed) plan {
		return plan{victim: victim{main: asking, prepare: peer, env: blocks}, want: cause("peer-slow"), faults: during(s, short, long, slowPeer(s.span(5*ms, 20*ms)))}
	}},
	{name: "a peer that answers very late, once in a while", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 400; sync; @%d ask 0", s.between(20, 30)), prepare: peer, env: blocks},
			want: cause("peer-slow", "tool-call"), faults: during(s, long, 3000*ms, slowPeer(s.span(100*ms, 200*ms)))}
	}},
	{name: "packets are lost", plan: func(s *seed) plan {
		return plan{victim: victim{main: asking, prepare: peer, env: blocks}, want: cause("tcp-loss"), faults: during(s, long, 3000*ms, lossy(int32(s.between(5, 15))))}
	}},
	{name: "idle while a tool is called", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 400; sync; !@%d ask %d", s.between(60, 90), s.between(300, 600)), prepare: peer, env: blocks},
			want: cause("tool-call"), faults: always(inside)}
	}},
	{name: "idle while a tool is called, later", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 400; sync; !@%d ask %d", s.between(60, 90), s.between(300, 600)), prepare: peer, env: blocks},
			want: cause("tool-call"), faults: during(s, long, 3000*ms, inside)}
	}},
	{name: "bursts of an agent's session", plan: func(s *seed) plan {
		return plan{victim: victim{main: fmt.Sprintf("copy 65536; launch 8 200; sync; ask %d; !launch 200 100; !launch 200 100", s.between(10, 20)), prepare: peer, env: blocks},
			want: cause("agent-burst"), faults: during(s, long, 3000*ms, inside)}
	}},
	{name: "a peer that answers at once", plan: func(s *seed) plan {
		return plan{victim: victim{main: asking, prepare: peer, env: blocks}}
	}},
}
