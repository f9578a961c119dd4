package where

import (
	"strings"
	"testing"

	"ingero/internal/tick"
)

func TestJob(t *testing.T) {
	for _, tt := range []struct {
		comm, line  string
		where       tick.Where
		program, in string
	}{
		{comm: "python3", program: "python3", in: "python3"},
		{comm: "python3", line: "/usr/bin/python3.12 -u train.py --lr 1", program: "train.py", in: "train.py"},
		{comm: "pt_main_thread", line: "python -m torch.distributed.run x.py", program: "x.py", in: "x.py"},
		{comm: "python3", line: "python3 -c pass", program: "python3", in: "python3"},
		{comm: "train", line: "/opt/bin/train --steps 3", where: tick.Where{Job: "4711", Pod: "x"}, program: "train", in: "job 4711"},
		{comm: "vllm", where: tick.Where{Pod: "serve-0", Namespace: "ml", Container: "3f2b8c1d"}, program: "vllm", in: "pod ml/serve-0"},
		{comm: "vllm", where: tick.Where{Container: strings.Repeat("3f2b8c1d", 8)}, program: "vllm", in: "container 3f2b8c1d3f2b"},
		{comm: "vllm", where: tick.Where{Unit: "session-3.scope"}, program: "vllm", in: "vllm"},
		{comm: "vllm", where: tick.Where{Unit: "vllm.service"}, program: "vllm", in: "vllm.service"},
	} {
		p := tick.Process{Comm: tt.comm, Where: tt.where}
		p.Cmdline = tt.line
		if got := Program(&p); got != tt.program {
			t.Errorf("%q: program %q, want %q", tt.line, got, tt.program)
		}
		if got := Job(&p); got != tt.in {
			t.Errorf("%q: in %q, want %q", tt.line, got, tt.in)
		}
	}
}
