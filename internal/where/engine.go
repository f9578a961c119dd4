package where

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"ingero/internal/tick"
)

// engine describes how the processes of an inference server are recognized.
type engine struct {
	name     string
	commands []engineCommand
	titles   string       // what the titles begin with that its processes set for themselves
	roles    []engineRole // by the rest of the title
	model    string       // options with the model's name
	tensor   string       // options with the sizes of its parallelism
	pipeline string
	data     string
	ranked   bool   // RANK in a worker's environment is its tensor parallel rank
	port     string // options with the port
	at       uint32 // the default port
}

// engineCommand is a program or Python module that is a process of a server.
type engineCommand struct {
	program string
	sub     string // the first argument that it must have, "": any
	role    string
	bare    bool // the first argument that is no option is the model
}

// engineRole is the role of processes whose titles begin so.
type engineRole struct{ title, role string }

// Roles of processes. [tick.Engine] has them.
const (
	RoleServer      = "server"    // takes requests; most also turn text into tokens and back
	RoleScheduler   = "scheduler" // decides which requests the next step computes
	RoleWorker      = "worker"    // calls CUDA
	roleTokenizer   = "tokenizer"
	roleDetokenizer = "detokenizer"
	roleCoordinator = "coordinator" // spreads requests over replicas
)

// Triton is the name of the server that computes different models in threads of one process.
const Triton = "Triton"

// engines are the known inference servers, from their public sources as of 2026: commands, options
// with their defaults, and titles. docs/reference/where.md names the files. None was run here.
var engines = []engine{
	{
		name: "vLLM", titles: "VLLM::", at: 8000,
		commands: []engineCommand{
			{"vllm", "serve", RoleServer, true}, {"vllm.entrypoints.openai.api_server", "", RoleServer, false},
			{"vllm.entrypoints.api_server", "", RoleServer, false}, {"vllm.entrypoints.cli.main", "serve", RoleServer, true},
		},
		roles: []engineRole{{"APIServer", RoleServer}, {"EngineCore", RoleScheduler}, {"Worker", RoleWorker}, {"DPCoordinator", roleCoordinator}},
		model: "--served-model-name --model", tensor: "--tensor-parallel-size -tp", pipeline: "--pipeline-parallel-size -pp", data: "--data-parallel-size -dp", port: "--port",
	},
	{
		name: "SGLang", titles: "sglang::", at: 30000,
		commands: []engineCommand{{"sglang.launch_server", "", RoleServer, false}, {"sglang", "serve", RoleServer, true}},
		roles: []engineRole{{"scheduler", RoleWorker}, {"detokenizer", roleDetokenizer}, {"tokenizer_worker", roleTokenizer},
			{"data_parallel_controller", roleCoordinator}, {"http_server", RoleServer}},
		model: "--served-model-name --model-path --model", tensor: "--tensor-parallel-size --tp-size --tp", pipeline: "--pipeline-parallel-size --pp-size",
		data: "--data-parallel-size --dp-size --dp", port: "--port",
	},
	{
		name: "TGI", at: 3000,
		commands: []engineCommand{
			{"text-generation-launcher", "", roleCoordinator, false}, {"text-generation-router", "", RoleServer, false},
			{"text-generation-server", "serve", RoleWorker, true}, {"text_generation_server.cli", "serve", RoleWorker, true},
		},
		model: "--model-id --tokenizer-name", tensor: "--num-shard", ranked: true, port: "--port -p",
	},
	{
		name: Triton, at: 8000,
		commands: []engineCommand{{"tritonserver", "", RoleServer, false}, {"triton_python_backend_stub", "", RoleWorker, true}},
		model:    "--model-repository --model-store", port: "--http-port",
	},
	{
		name: "TensorRT-LLM", at: 8000,
		commands: []engineCommand{
			{"trtllm-serve", "serve", RoleServer, true}, {"trtllm-serve", "disaggregated", roleCoordinator, false},
			{"trtllm-serve", "disaggregated_mpi_worker", RoleWorker, false}, {"trtllm-serve", "grpc", RoleServer, true},
			{"trtllm-serve", "mm_embedding_serve", RoleServer, true}, {"trtllm-serve", "", RoleServer, true},
		},
		model: "--model", tensor: "--tp-size --tensor-parallel-size", pipeline: "--pp-size --pipeline-parallel-size", port: "--port",
	},
	{
		name: "Ollama", at: 11434,
		commands: []engineCommand{{"ollama", "serve", RoleServer, false}, {"ollama", "runner", RoleWorker, false}, {"ollama_llama_server", "", RoleWorker, false}},
		model:    "--model", port: "--port",
	},
	{
		name: "llama.cpp", at: 8080,
		commands: []engineCommand{{"llama-server", "", RoleServer, false}, {"llama", "serve", RoleServer, false}, {"llama", "server", RoleServer, false}},
		model:    "--alias -a --model -m --hf-repo -hf -hfr", port: "--port",
	},
}

// Engines returns what each process of a machine is to an inference server, by PID. Processes that
// are nothing to one are absent. A process that says little of itself has its parents' model and
// sizes.
func Engines(all []tick.Process) map[uint32]tick.Engine {
	byPID := index(all)
	own := make(map[uint32]tick.Engine, 8)
	other := map[string]bool{} // command lines of other programs, which many processes have
	for i := range all {
		p := &all[i]
		if other[p.Cmdline] {
			continue
		}
		e, ok := engineOf(p)
		if !ok {
			other[p.Cmdline] = true
			continue
		}
		if parent := byPID[p.PPID]; parent != nil && parent != p && parent.Cmdline == p.Cmdline {
			e.Role, e.Port = "", 0 // a fork, which has set no title
		}
		own[p.PID] = e
	}
	if len(own) == 0 {
		return nil
	}
	for _, p := range parents(all, own) {
		e := own[p]
		e.Role, e.Port = "", 0
		own[p] = e
	}
	out := make(map[uint32]tick.Engine, len(own))
	for i := range all {
		p := &all[i]
		e, ok := own[p.PID]
		if _, worker := program(p); !ok && !worker {
			continue
		}
		for range maxParents {
			p = byPID[p.PPID]
			if p == nil || p.PID == p.PPID {
				break
			}
			if from, known := own[p.PID]; known {
				e = under(e, from)
			}
		}
		if e.Name == "" {
			continue
		}
		out[all[i].PID] = e
	}
	return out
}

// parents returns the PIDs of programs that started a server and wait for its end, such as uv run:
// their command lines contain the server's.
func parents(all []tick.Process, own map[uint32]tick.Engine) (out []uint32) {
	for i := range all {
		e, parent := own[all[i].PID], own[all[i].PPID]
		if e.Role == RoleServer && parent.Role == RoleServer && e.Name == parent.Name && e.Port != 0 && e.Port == parent.Port {
			out = append(out, all[i].PPID)
		}
	}
	return out
}

// Roots returns the first process of the inference server that each process belongs to, by PID.
// engines are the results of [Engines] for all processes.
func Roots(all []tick.Process, engines map[uint32]tick.Engine) map[uint32]uint32 {
	parents := make(map[uint32]uint32, len(engines))
	for i := range all {
		if _, ok := engines[all[i].PID]; ok {
			parents[all[i].PID] = all[i].PPID
		}
	}
	out := make(map[uint32]uint32, len(parents))
	for pid := range parents {
		root := pid
		for range maxParents {
			parent := parents[root]
			if _, ok := parents[parent]; !ok || parent == root {
				break
			}
			root = parent
		}
		out[pid] = root
	}
	return out
}

// Server is a running process that takes requests for an inference server.
type Server struct {
	tick.Process
	Engine tick.Engine
}

// Servers returns the servers of traced jobs, in the order of the processes. A server is one if it
// or another process of the same inference server is traced: some have no CUDA call of their own.
func Servers(traced, others []tick.Process) (out []Server) {
	all := append(append(make([]tick.Process, 0, len(traced)+len(others)), traced...), others...)
	engines := Engines(all)
	if len(engines) == 0 {
		return nil
	}
	root := Roots(all, engines)
	ours := map[uint32]bool{} // by first process
	for i := range traced {
		ours[root[traced[i].PID]] = true
	}
	for i := range all {
		if e, ok := engines[all[i].PID]; ok && e.Role == RoleServer && all[i].Ended.IsZero() && ours[root[all[i].PID]] {
			out = append(out, Server{all[i], e})
		}
	}
	return out
}

// under completes a process's facts with those of a parent. Ollama starts llama.cpp's server.
func under(e, parent tick.Engine) tick.Engine {
	switch {
	case e.Name == "":
		e.Name = parent.Name
	case e.Name == "llama.cpp" && parent.Name == "Ollama":
		e.Name, e.Role, e.Port = parent.Name, RoleWorker, 0
	case e.Name != parent.Name:
		return e
	}
	e.Model = cmp.Or(e.Model, parent.Model)
	e.Tensor, e.Pipeline, e.Data = cmp.Or(e.Tensor, parent.Tensor), cmp.Or(e.Pipeline, parent.Pipeline), cmp.Or(e.Data, parent.Data)
	return e
}

// engineOf recognizes a process by its own command line or title.
func engineOf(p *tick.Process) (e tick.Engine, ok bool) {
	words := split(p.Cmdline)
	if len(words) == 0 {
		return e, false
	}
	name, _ := command(words, mostLaunchers)
	for i := range engines {
		x := &engines[i]
		if rest, found := strings.CutPrefix(words[0], x.titles); found && x.titles != "" {
			return x.titled(rest), true
		}
		for j := range x.commands {
			c := &x.commands[j]
			if args, found := c.arguments(name, words); found {
				e = x.started(c, args)
				if x.ranked && c.role == RoleWorker {
					e.TensorRank = p.Rank
				}
				return e, true
			}
		}
	}
	return e, false
}

// arguments returns the arguments of a command, if name and words are that command's.
func (c *engineCommand) arguments(name string, words []string) (args []string, found bool) {
	if name != c.program {
		return nil, false
	}
	at := slices.IndexFunc(words, func(w string) bool { return path.Base(w) == name })
	if at < 0 {
		return nil, false
	}
	args = words[at+1:]
	switch {
	case c.sub == "":
		return args, true
	case len(args) == 0 || args[0] != c.sub:
		return nil, false
	}
	return args[1:], true
}

// started returns the facts in the arguments of a command.
func (x *engine) started(c *engineCommand, args []string) tick.Engine {
	e := tick.Engine{Name: x.name, Role: c.role, Model: option(args, x.model), Tensor: size(option(args, x.tensor)),
		Pipeline: size(option(args, x.pipeline)), Data: size(option(args, x.data))}
	if e.Model == "" && c.bare && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		e.Model = args[0]
	}
	if c.role == RoleServer {
		e.Port = cmp.Or(size(option(args, x.port)), tick.Numbered(x.at))
	}
	return e
}

// titled returns the facts in a title: "Worker_DP1_TP0". Versions differ in the order of its ranks.
func (x *engine) titled(rest string) tick.Engine {
	e := tick.Engine{Name: x.name}
	for _, r := range x.roles {
		if strings.HasPrefix(rest, r.title) {
			e.Role = r.role
		}
	}
	for _, part := range strings.Split(rest, "_")[1:] {
		for prefix, to := range map[string]*tick.Number{"TP": &e.TensorRank, "PP": &e.PipelineRank, "DP": &e.DataRank} {
			if digits, found := strings.CutPrefix(part, prefix); found {
				*to = size(digits)
			}
		}
	}
	return e
}

// option returns the value of the first of some options that has one. Servers take --a_b for --a-b.
func option(args []string, names string) string {
	for name := range strings.FieldsSeq(names) {
		for i, arg := range args {
			key, value, given := strings.Cut(arg, "=")
			switch {
			case !strings.HasPrefix(key, "-") || strings.ReplaceAll(key, "_", "-") != name:
			case given:
				return value
			case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
				return args[i+1]
			}
		}
	}
	return ""
}

// PortOption returns the port that an option of a command line names, or the default.
func PortOption(cmdline, names string, byDefault uint32) uint32 {
	if port, known := size(option(split(cmdline), names)).Value(); known {
		return port
	}
	return byDefault
}

// size parses a small number.
func size(text string) tick.Number {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return tick.Numbered(uint32(n))
}

// EngineText says briefly what a process is: "vLLM worker for Qwen/Qwen2.5-7B, tensor parallel rank
// 1 of 4".
func EngineText(e *tick.Engine) string {
	text := strings.TrimSpace(e.Name + " " + e.Role)
	if e.Model != "" {
		text += " for " + e.Model
	}
	if e.Port != 0 {
		text += " on port " + e.Port.String()
	}
	for _, x := range []struct {
		kind       string
		rank, size tick.Number
	}{{"data", e.DataRank, e.Data}, {"pipeline", e.PipelineRank, e.Pipeline}, {"tensor", e.TensorRank, e.Tensor}} {
		many := x.size > tick.Numbered(1)
		switch {
		case x.rank != 0 && many:
			text += ", " + x.kind + " parallel rank " + x.rank.String() + " of " + x.size.String()
		case x.rank > tick.Numbered(0):
			text += ", " + x.kind + " parallel rank " + x.rank.String()
		case many:
			text += ", " + x.kind + " parallel " + x.size.String()
		}
	}
	return text
}
