package where

import (
	"testing"

	"ingero/internal/tick"
)

// served is a process, and what it is to an inference server.
type served struct {
	pid, parent uint32
	line        string
	want        string // "": nothing
}

// spawned is the command line of a process that Python's multiprocessing starts.
const spawned = `/usr/bin/python3 -c 'from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)' --multiprocessing-fork`

// servers are machines with inference servers. Command lines and titles are those of the servers'
// public sources.
var servers = map[string][]served{
	"vLLM, one GPU": {
		{10, 1, "/opt/venv/bin/python3 /opt/venv/bin/vllm serve Qwen/Qwen2.5-7B-Instruct --port 8080", "vLLM server for Qwen/Qwen2.5-7B-Instruct on port 8080"},
		{11, 10, "VLLM::EngineCore", "vLLM scheduler for Qwen/Qwen2.5-7B-Instruct"},
		{12, 10, "/usr/bin/python3 -c 'from multiprocessing.resource_tracker import main;main(3)'", "vLLM for Qwen/Qwen2.5-7B-Instruct"},
	},
	"vLLM, tensor and data parallel": {
		{10, 1, "bash -c 'exec vllm serve'", ""},
		{20, 1, "python -m vllm.entrypoints.openai.api_server --model /models/llama --served-model-name llama-3 other --tensor_parallel_size=4 -dp 2", "vLLM server for llama-3 on port 8000, data parallel 2, tensor parallel 4"},
		{21, 20, "VLLM::EngineCore_DP1", "vLLM scheduler for llama-3, data parallel rank 1 of 2, tensor parallel 4"},
		{22, 21, "VLLM::Worker_DP1_TP3_EP3", "vLLM worker for llama-3, data parallel rank 1 of 2, tensor parallel rank 3 of 4"},
		{23, 20, "VLLM::DPCoordinator", "vLLM coordinator for llama-3, data parallel 2, tensor parallel 4"},
	},
	"vLLM behind launchers": {
		{10, 1, "sudo uv run vllm serve m", "vLLM for m"},
		{11, 10, "uv run vllm serve m", "vLLM for m"},
		{12, 11, "/opt/venv/bin/python3 /opt/venv/bin/vllm serve m", "vLLM server for m on port 8000"},
		{13, 12, "VLLM::EngineCore", "vLLM scheduler for m"},
	},
	"vLLM before it set titles": {
		{10, 1, "vllm serve facebook/opt-125m -tp 2", "vLLM server for facebook/opt-125m on port 8000, tensor parallel 2"},
		{11, 10, "vllm serve facebook/opt-125m -tp 2", "vLLM for facebook/opt-125m, tensor parallel 2"},
		{12, 10, spawned, "vLLM for facebook/opt-125m, tensor parallel 2"},
	},
	"SGLang": {
		{10, 1, "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --tp 2 --host 0.0.0.0", "SGLang server for meta-llama/Llama-3.1-8B on port 30000, tensor parallel 2"},
		{11, 10, "sglang::scheduler_TP1", "SGLang worker for meta-llama/Llama-3.1-8B, tensor parallel rank 1 of 2"},
		{12, 10, "sglang::detokenizer", "SGLang detokenizer for meta-llama/Llama-3.1-8B, tensor parallel 2"},
		{13, 10, "sglang::tokenizer_worker:4711", "SGLang tokenizer for meta-llama/Llama-3.1-8B, tensor parallel 2"},
		{20, 1, "sglang::scheduler", "SGLang worker"},
	},
	"TGI": {
		{10, 1, "text-generation-launcher --model-id bigscience/bloom --num-shard 2 -p 80", "TGI coordinator for bigscience/bloom, tensor parallel 2"},
		{11, 10, "text-generation-router --hostname 0.0.0.0 --port 80 --tokenizer-name bigscience/bloom", "TGI server for bigscience/bloom on port 80, tensor parallel 2"},
		{12, 10, "/opt/conda/bin/python3.11 /opt/conda/bin/text-generation-server serve bigscience/bloom --sharded --uds-path /tmp/x", "TGI worker for bigscience/bloom, tensor parallel 2"},
		{13, 10, "/opt/conda/bin/python3.11 /opt/conda/bin/text-generation-server download-weights bigscience/bloom", ""},
	},
	"Triton": {
		{10, 1, "/opt/tritonserver/bin/tritonserver --model-repository=/models --http-port 9000", "Triton server for /models on port 9000"},
		{11, 10, "/opt/tritonserver/backends/python/triton_python_backend_stub /models/asr/1/model.py triton_shm_region_1", "Triton worker for /models/asr/1/model.py"},
	},
	"TensorRT-LLM": {
		{10, 1, "/usr/bin/python3 /usr/local/bin/trtllm-serve nvidia/Llama-3.1-8B-FP8 --tp_size 2 --port 8355", "TensorRT-LLM server for nvidia/Llama-3.1-8B-FP8 on port 8355, tensor parallel 2"},
		{20, 1, "trtllm-serve serve /engine", "TensorRT-LLM server for /engine on port 8000"},
		{30, 1, "trtllm-serve disaggregated -c config.yaml", "TensorRT-LLM coordinator"},
	},
	"Ollama and llama.cpp": {
		{10, 1, "/usr/local/bin/ollama serve", "Ollama server on port 11434"},
		{11, 10, "/usr/local/bin/ollama runner --ollama-engine --model /usr/share/ollama/.ollama/models/blobs/sha256-ab --port 40001", "Ollama worker for /usr/share/ollama/.ollama/models/blobs/sha256-ab"},
		{12, 10, "/usr/lib/ollama/llama-server --model /usr/share/ollama/.ollama/models/blobs/sha256-cd --port 40002", "Ollama worker for /usr/share/ollama/.ollama/models/blobs/sha256-cd"},
		{20, 1, "./llama-server -hf ggml-org/gemma-3-1b-it-GGUF --metrics", "llama.cpp server for ggml-org/gemma-3-1b-it-GGUF on port 8080"},
		{21, 1, "ollama pull llama3", ""},
	},
	"others": {
		{10, 1, "grep vllm serve x", ""},
		{11, 1, "vim vllm", ""},
		{12, 1, "vllm bench serve --model x", ""},
		{13, 1, "python3 train.py --model vllm", ""},
		{14, 13, spawned, ""},
		{15, 1, "", ""},
	},
}

// Engines recognizes the processes of inference servers.
func TestEngines(t *testing.T) {
	for name, all := range servers {
		t.Run(name, func(t *testing.T) {
			var ps []tick.Process
			for _, p := range all {
				ps = append(ps, tick.Process{PID: p.pid, PPID: p.parent, Where: tick.Where{Cmdline: p.line}})
			}
			got := Engines(ps)
			for _, p := range all {
				e, text := got[p.pid], ""
				if e.Name != "" {
					text = EngineText(&e)
				}
				if text != p.want {
					t.Errorf("%s: %q, want %q", p.line, text, p.want)
				}
			}
		})
	}
}

// RANK in the environment is the tensor parallel rank of TGI's workers. Other servers have ranks of
// several kinds, and it may be any of them.
func TestEngineRank(t *testing.T) {
	for line, want := range map[string]string{
		"text-generation-server serve x": "TGI worker for x, tensor parallel rank 1",
		"VLLM::Worker":                   "vLLM worker",
		"VLLM::Worker_PP1":               "vLLM worker, pipeline parallel rank 1",
	} {
		p := tick.Process{PID: 12, Where: tick.Where{Cmdline: line, Rank: tick.Numbered(1)}}
		e := Engines([]tick.Process{p})[12]
		if EngineText(&e) != want {
			t.Errorf("%s: %q, want %q", line, EngineText(&e), want)
		}
	}
}
