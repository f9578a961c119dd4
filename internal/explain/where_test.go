package explain

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingero/internal/tick"
	"ingero/internal/wire"
)

// inPod is where a process of these tests runs.
var inPod = tick.Where{
	Cmdline: "python3 train.py --token ***", Runtime: "containerd", Container: "3f2b8c1d9e7a6f5b4c3d", ContainerName: "trainer", Pod: "train-0", Namespace: "ml",
	PodUID: "7f0c4a52-1b3d-4e5f-8a9b-0c1d2e3f4a5b", Job: "4711", Rank: tick.Numbered(0), WorldSize: tick.Numbered(8),
}

// A report has the place and the role of a process, and the command line of the culprit.
func TestWhereInReports(t *testing.T) {
	in := ledgerInput(train(4821, 1), hogged(4821))
	in.Processes[0].Where = inPod
	in.Chains = []tick.Chain{takenChain(4821)}
	for i := range in.Chains[0].Culprits {
		c := &in.Chains[0].Culprits[i]
		c.Cmdline, c.Where = "stress-ng --cpu 4", "pod prod/eval-7 (eval)"
	}
	text := Report(in, Options{Detail: Tables})
	for _, want := range []string{"python3 train.py --token ***", "pod ml/train-0 (trainer), job 4711, rank 0 of 8", "runs stress-ng --cpu 4;", "pod prod/eval-7 (eval)"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	b, err := ReportJSON(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"pod": "train-0"`, `"rank": 0`, `"world_size": 8`, `"where": "pod prod/eval-7 (eval)"`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("JSON lacks %s", want)
		}
	}
	if strings.Contains(string(b), "local_rank") {
		t.Error("what is not known is in JSON")
	}
}

// The main line of a process has its rank and its job.
func TestWhereOnTheScreen(t *testing.T) {
	x := ledgerTick(well(4821), well(4822))
	x.Processes[0].Where = inPod
	for width, want := range map[int]string{
		130: "python3 (4821)  pod ml/train-0 (trainer), job 4711, rank 0 of 8  15.1 ms a step",
		80:  "python3 (4821)  pod ml/train-0 (trainer), job 4711, rank 0 of 8\n  15.1 ms a step",
	} {
		if text := Live(x, nil, Options{Width: width}); !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
}

// The fix for a quota depends on the software that set it.
func TestThrottledFixGoesByPlace(t *testing.T) {
	for want, v := range map[string]victim{
		"resources.limits.cpu":                   {where: inPod, cgroup: "/x"},
		"docker update --cpus N 3f2b8c1d9e7a":    {where: tick.Where{Runtime: "docker", Container: inPod.Container}, cgroup: "/x"},
		"docker update --cpus N CONTAINER":       {cgroup: "/docker/short"},
		"raise the CPU quota of its cgroup: cpu": {cgroup: "/"},
	} {
		if got := fixThrottled(nil, &v); !strings.Contains(got, want) {
			t.Errorf("got %q, want it to say %q", got, want)
		}
	}
}

// Pods that request GPUs are listed before they make a call.
func TestPodsInTicks(t *testing.T) {
	x := &tick.Tick{Time: start.Add(time.Second), Started: start, Window: time.Second}
	for i := range 5 {
		x.Pods = append(x.Pods, tick.Pod{UID: fmt.Sprint(i), Name: fmt.Sprintf("train-%d", i), Namespace: "ml", Phase: "Running", GPUs: i + 1})
	}
	x.Pods[1].Phase = "Pending"
	want := "ml/train-0 asks for 1 GPU · ml/train-1 asks for 2 GPUs (Pending) · ml/train-2 asks for 3 GPUs · 2 more"
	if text := Live(x, nil, Options{Width: 130}); !strings.Contains(text, want) {
		t.Errorf("the table lacks %q:\n%s", want, text)
	}
	b, err := TickJSON(x)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Pods []wire.Pod }
	if err := json.Unmarshal(b, &got); err != nil || len(got.Pods) != 5 || got.Pods[1] != (wire.Pod{UID: "1", Name: "train-1", Namespace: "ml", Phase: "Pending", GPUs: 2}) {
		t.Errorf("got %+v, %v", got, err)
	}
}
