package explain

import (
	"testing"
	"time"

	"ingero/internal/testkit"
	"ingero/internal/tick"
)

// The report on a slower GPU names the untraced programs that have it open.
func TestSharers(t *testing.T) {
	in := ledgerInput(train(4821, 20), well(4821))
	list := []tick.Sharer{{PID: 5210, Comm: "python3", Cmdline: "python3 train.py --lr 1", Where: "pod b", Started: start.Add(-3200 * time.Millisecond)},
		{PID: 77, Comm: "vllm\x1b", Started: start.Add(-49 * time.Hour)}, {PID: 78}, {PID: 79}}
	slower := func(n int) tick.Chain {
		return chainOfRule("gpu-slower", streamSyn, tick.Culprit{What: "GPU 0", GPU: "0", Sharers: list[:n]})
	}
	in.Chains = []tick.Chain{slower(4), slower(1), slower(0)}
	got := Report(in, Options{Location: cet, Detail: Brief})
	testkit.Golden(t, "incident-sharers.txt", got)
}
