package causal

import (
	"testing"

	"ingero/internal/ledger"
	"ingero/pkg/events"
)

// A file system without a disk is named as such, with the process that serves most of the reads.
func TestStorage(t *testing.T) {
	server := events.Thread{PID: 40, TID: 41, Parent: 1, Name: events.NameOf("sshfs")}
	newer := events.Thread{PID: 60, TID: 60, Parent: 1, Name: events.NameOf("sshfs")}
	rsync := events.Thread{PID: 50, TID: 50, Parent: 1, Name: events.NameOf("rsync")}
	loader := events.Thread{PID: 41, TID: 41, Parent: 7, Name: events.NameOf("loader")}
	type enders []events.Thread // of the waits, in turns
	for _, tt := range []struct {
		name, call string
		dev        uint32
		who        enders
		want       string
		culprit    uint32
	}{
		{"a disk", "pread64", 254<<20 | 3, enders{server}, "disk 254:3, pread64", 40},
		{"an unknown disk", "pread64", 0, enders{server}, "disk, pread64", 40},
		{"FUSE", "pread64", 42, enders{server}, "file system 0:42, pread64, served by sshfs (40)", 40},
		{"FUSE, with a new server", "pread64", 42, enders{server, newer, newer, newer, newer, newer, newer, newer}, "file system 0:42, pread64, served by sshfs (60)", 60},
		{"NFS", "pread64", 42, enders{kwork}, "file system 0:42, pread64", 0},
		{"overlayfs, with a lock of another program", "pread64", 42, enders{rsync, kwork, kwork, {}}, "file system 0:42, pread64", 0},
		{"a lock of another program", "unlink", 42, enders{rsync}, "file system 0:42, unlink", 0},
		{"an own thread", "pread64", 42, enders{helper}, "file system 0:42, pread64", 0},
		{"a worker of the job", "pread64", 42, enders{loader}, "file system 0:42, pread64", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			call := events.Syscall(0)
			for i := range events.Syscalls {
				if events.Syscalls[i].Name == tt.call {
					call = events.Syscall(i)
				}
			}
			steps := with(1000, 5, 4*ms, ledger.Wait{NS: 4 * ms, State: events.WaitBlocked, Reason: events.ReasonFile, Call: call, Dev: tt.dev})
			for i := range steps {
				if s := &steps[i]; len(s.Waits) > 0 {
					s.Waits[0].Who = tt.who[i/5%len(tt.who)]
				}
			}
			e := New(1)
			e.Add(steps)
			got := chainsOf(e, start+20*s1)
			if len(got) != 1 || len(got[0].Culprits) != 1 || got[0].Culprits[0].What != tt.want || got[0].Culprits[0].Thread.PID != tt.culprit {
				show(t, got)
				t.Errorf("want %q by %d", tt.want, tt.culprit)
			}
		})
	}
}
