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

// Program returns what all kinds of launchers and interpreters run.
func TestProgram(t *testing.T) {
	for line, want := range map[string]string{
		"bash -c 'exec torchrun --nproc_per_node 2 train.py'": "train.py", "/bin/sh -c 'python train.py'": "train.py", "/bin/sh -c 'cd x && python train.py'": "sh",
		"python3 -m ipykernel_launcher -f /x.json": "ipykernel_launcher", "/usr/bin/python3 -m pip install x": "pip",
		"sudo -E -u bob env X=1 python t.py": "t.py", "numactl --cpunodebind=0 -m 0 python t.py": "t.py", "taskset -c 0-7 python t.py": "t.py",
		"nsys profile -o out --trace=cuda python t.py": "t.py", "ncu --set full -k regex:x ./app --n 3": "app",
		"accelerate launch --config_file c.yaml --num_processes 8 --multi_gpu train.py --x": "train.py", "python -m accelerate.commands.launch --multi_gpu train.py": "train.py",
		"torchrun --nproc-per-node=8 -m pkg.train --lr 1": "pkg.train", "python3 /opt/conda/bin/torchrun --nproc_per_node 2 t.py": "t.py",
		"python -u -m torch.distributed.run --standalone --nproc_per_node 4 t.py": "t.py", "timeout 3600 torchrun --rdzv_backend c10d t.py": "t.py",
		"mpirun -x LD_LIBRARY_PATH -np 4 -H a,b python t.py": "t.py", "mpiexec -n 4 -ppn 2 python t.py": "t.py", "srun --mpi=pmix -n 8 python t.py": "t.py",
		"mpirun -np 16 -bind-to none -map-by slot -x PATH -mca pml ob1 -mca btl ^openib python train.py": "train.py", "mpirun --mca pml ucx --gmca btl self python t.py": "t.py", "mpiexec -genv OMP_NUM_THREADS 4 -env A b -n 2 python t.py": "t.py", "mpirun -mca pml": "mpirun",
		"ray job submit --address http://x -- python t.py": "t.py", "ray start --head": "ray",
		"uv run --with torch python t.py": "t.py", "uv run train.py": "train.py", "poetry run accelerate launch train.py": "train.py", "poetry install": "poetry",
		"conda run -n env python t.py": "t.py", "apptainer exec --nv image.sif python t.py": "t.py",
		"deepspeed --num_gpus 8 --module pkg.train": "pkg.train", "python /usr/local/bin/deepspeed --num_gpus=4 train.py": "train.py",
		"python3.11 -I -B train.py": "train.py", "python3.13t -X gil=0 t.py": "t.py", "python -": "python", "python": "python", "python -OO -W error -c 'import x'": "python",
		"/opt/bin/train --steps 3": "train", "nvidia-smi -l": "nvidia-smi",
	} {
		p := tick.Process{Comm: "comm"}
		p.Cmdline = line
		if got := Program(&p); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
