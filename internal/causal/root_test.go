package causal

import (
	"testing"

	"ingero/internal/ledger"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// A process's workers inherit what its launcher gave it, and are no ranks. Ranks of one job are, however
// they were launched.
func TestRelation(t *testing.T) {
	const job, other = 10, 20
	ranked := func(pid, parent uint32, w tick.Where) tick.Process {
		w.Rank, w.WorldSize = tick.Numbered(pid), tick.Numbered(64)
		return tick.Process{PID: pid, PPID: parent, Where: w}
	}
	local := func(container, pod string) tick.Where {
		return tick.Where{Master: "127.0.0.1:29500", Container: container, PodUID: pod}
	}
	pod := func(name, master string) tick.Where {
		return tick.Where{Namespace: "ml", PodUID: "pod of " + name, Job: name, Master: master + ":29500"}
	}
	step := func(w tick.Where) tick.Where {
		w.Step = "0"
		return w
	}
	torchrun, slurm, mpi := tick.Where{Master: "10.0.0.1:29500"}, tick.Where{Job: "4711", Step: "0"}, tick.Where{}
	for _, tt := range []struct {
		name  string
		all   []tick.Process
		steps uint32 // process with steps, beside the job
		who   uint32
		want  tick.Relation
	}{
		{"its worker", []tick.Process{{PID: 11, PPID: job}}, 0, 11, tick.RelationWorker},
		{"a worker's child", []tick.Process{{PID: 11, PPID: job}, {PID: 12, PPID: 11}}, 0, 12, tick.RelationWorker},
		{"a child with steps", []tick.Process{{PID: 11, PPID: job}}, 11, 11, tick.RelationRank},
		{"somebody else", []tick.Process{{PID: other, PPID: 1}}, 0, other, tick.RelationStranger},
		{"torchrun: its worker", []tick.Process{ranked(job, 5, torchrun), ranked(11, job, torchrun)}, 0, 11, tick.RelationWorker},
		{"torchrun: another rank", []tick.Process{ranked(job, 5, torchrun), ranked(other, 5, torchrun)}, 0, other, tick.RelationRank},
		{"torchrun: another rank's worker", []tick.Process{ranked(job, 5, torchrun), ranked(other, 5, torchrun), ranked(21, other, torchrun)}, 0, 21, tick.RelationRank},
		{"torchrun: another job", []tick.Process{ranked(job, 5, torchrun), ranked(other, 6, tick.Where{Master: "10.0.0.1:29501"})}, 0, other, tick.RelationStranger},
		{"torchrun: another rank in the container", []tick.Process{ranked(job, 5, local("a", "")), ranked(other, 6, local("a", ""))}, 0, other, tick.RelationRank},
		{"torchrun: another container", []tick.Process{ranked(job, 5, local("a", "")), ranked(other, 6, local("b", ""))}, 0, other, tick.RelationStranger},
		{"torchrun: another container of the pod", []tick.Process{ranked(job, 5, local("a", "p")), ranked(other, 6, local("b", "p"))}, 0, other, tick.RelationRank},
		{"torchrun: another pod", []tick.Process{ranked(job, 5, local("a", "p")), ranked(other, 6, local("b", "q"))}, 0, other, tick.RelationStranger},
		{"torchrun: no container", []tick.Process{ranked(job, 5, local("", "")), ranked(other, 6, local("", ""))}, 0, other, tick.RelationRank},
		{"torchrun: another container that meets elsewhere", []tick.Process{ranked(job, 5, torchrun), ranked(other, 6, tick.Where{Master: torchrun.Master, Container: "b"})}, 0, other, tick.RelationRank},
		{"torchrun: another namespace", []tick.Process{ranked(job, 5, tick.Where{Master: "train-0:29500", Namespace: "a"}), ranked(other, 6, tick.Where{Master: "train-0:29500", Namespace: "b"})}, 0, other, tick.RelationStranger},
		{"torchrun: another batch job", []tick.Process{ranked(job, 5, tick.Where{Master: "node1", Job: "4711"}), ranked(other, 6, tick.Where{Master: "node1", Job: "4712"})}, 0, other, tick.RelationStranger},
		{"torchrun: another Kubernetes Job", []tick.Process{ranked(job, 5, pod("leader", "train-0.train")), ranked(other, 6, pod("worker", "train-0.train"))}, 0, other, tick.RelationRank},
		{"torchrun: another pod that meets elsewhere", []tick.Process{ranked(job, 5, pod("train", "train-0.train")), ranked(other, 6, pod("train", "eval-0.eval"))}, 0, other, tick.RelationStranger},
		{"torchrun: another Kubernetes Job that meets in its own pod", []tick.Process{ranked(job, 5, pod("a", "127.0.0.1")), ranked(other, 6, pod("b", "127.0.0.1"))}, 0, other, tick.RelationStranger},
		{"torchrun: another Kubernetes Job that meets at any address of its own pod", []tick.Process{ranked(job, 5, pod("a", "0.0.0.0")), ranked(other, 6, pod("b", "0.0.0.0"))}, 0, other, tick.RelationStranger},
		{"torchrun: another batch job in pods", []tick.Process{ranked(job, 5, step(pod("4711", "node1"))), ranked(other, 6, step(pod("4712", "node1")))}, 0, other, tick.RelationStranger},
		{"torchrun: another step of the batch job", []tick.Process{ranked(job, 5, tick.Where{Master: "node1", Job: "4711", Step: "0"}), ranked(other, 6, tick.Where{Master: "node1", Job: "4711", Step: "1"})}, 0, other, tick.RelationRank},
		{"torchrun: another batch job without containers", []tick.Process{ranked(job, 5, tick.Where{Master: "localhost", Job: "4711"}), ranked(other, 6, tick.Where{Master: "localhost", Job: "4712"})}, 0, other, tick.RelationStranger},
		{"srun: its worker", []tick.Process{ranked(job, 5, slurm), ranked(11, job, slurm)}, 0, 11, tick.RelationWorker},
		{"srun: another rank", []tick.Process{ranked(job, 5, slurm), ranked(other, 6, slurm)}, 0, other, tick.RelationRank},
		{"srun: another step", []tick.Process{ranked(job, 5, slurm), ranked(other, 6, tick.Where{Job: "4711", Step: "1"})}, 0, other, tick.RelationStranger},
		{"mpirun: another rank", []tick.Process{ranked(job, 5, mpi), ranked(other, 5, mpi)}, 0, other, tick.RelationRank},
		{"mpirun: another job", []tick.Process{ranked(job, 5, mpi), ranked(other, 6, mpi)}, 0, other, tick.RelationStranger},
		{"one parent, no ranks", []tick.Process{{PID: job, PPID: 5}, {PID: other, PPID: 5}}, 0, other, tick.RelationStranger},
	} {
		var k relations
		k.note(&tick.Tick{Processes: tt.all})
		k.add(&ledger.Step{PID: tt.steps})
		if got := k.relation(job, &events.Thread{PID: tt.who, TID: tt.who}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
