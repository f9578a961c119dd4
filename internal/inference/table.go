package inference

// server describes the metrics of an inference server.
type server struct {
	engine string // as package where names it
	path   string
	port   string // option with the port of the metrics; empty: the port of the requests
	at     uint32 // the default of that port
	remedy string // how to switch the endpoint on
	// names are the names of metrics, by names of [tick.InferenceNumbers] and
	// [tick.InferenceDurations]. Of several, the first that the server has counts. A label selects
	// series. Durations are histograms in seconds; a number from a histogram is its sum.
	names map[string][]name
}

// name is the name of a metric, with the label that its series must have.
type name struct{ metric, label, value string }

// is returns names without a label.
func is(metrics ...string) (out []name) {
	for _, m := range metrics {
		out = append(out, name{metric: m})
	}
	return out
}

// vllm returns the names of vLLM's metrics, with the given names of the requests that run and wait.
func vllm(running, waiting []name) map[string][]name {
	return map[string][]name{
		"running": running, "waiting": waiting,
		"kv_cache":    is("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
		"first_token": is("vllm:time_to_first_token_seconds"), "between_tokens": is("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
		"request": is("vllm:e2e_request_latency_seconds"), "queue": is("vllm:request_queue_time_seconds"),
		"prefill": is("vllm:request_prefill_time_seconds"), "decode": is("vllm:request_decode_time_seconds"),
		"preemptions":   is("vllm:num_preemptions_total"),
		"prompt_tokens": is("vllm:prompt_tokens_total"), "generated_tokens": is("vllm:generation_tokens_total"),
	}
}

// servers are the servers with an endpoint for metrics, from their public sources as of 2026:
// docs/design/inference.md names the files. None was run here.
var servers = []server{
	{
		engine: "vLLM", path: "/metrics", remedy: "start vLLM without --disable-log-stats",
		names: vllm(is("vllm:num_requests_running"), is("vllm:num_requests_waiting")),
	},
	{
		engine: "SGLang", path: "/metrics", remedy: "start SGLang with --enable-metrics",
		names: map[string][]name{
			"running": is("sglang:num_running_reqs"), "waiting": is("sglang:num_queue_reqs"), "kv_cache": is("sglang:token_usage"),
			"first_token": is("sglang:time_to_first_token_seconds"), "between_tokens": is("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
			"request": is("sglang:e2e_request_latency_seconds"), "queue": is("sglang:queue_time_seconds"),
			"preemptions":   is("sglang:num_retracted_requests_total"),
			"prompt_tokens": is("sglang:prompt_tokens_total"), "generated_tokens": is("sglang:generation_tokens_total"),
		},
	},
	{
		// Its /metrics is JSON, and each read removes what it returns.
		engine: "TensorRT-LLM", path: "/prometheus/metrics", remedy: "set return_perf_metrics: true and enable_iter_perf_stats: true in TensorRT-LLM's YAML file",
		names: map[string][]name{
			"running": is("trtllm_num_requests_running", "num_requests_running"), "waiting": is("trtllm_num_requests_waiting", "num_requests_waiting"),
			"kv_cache":       is("trtllm_kv_cache_utilization", "kv_cache_utilization"),
			"first_token":    is("trtllm_time_to_first_token_seconds", "time_to_first_token_seconds"),
			"between_tokens": is("trtllm_time_per_output_token_seconds", "time_per_output_token_seconds"),
			"request":        is("trtllm_e2e_request_latency_seconds", "e2e_request_latency_seconds"),
			"queue":          is("trtllm_request_queue_time_seconds", "request_queue_time_seconds"),
			"prefill":        is("trtllm_request_prefill_time_seconds", "request_prefill_time_seconds"),
			"decode":         is("trtllm_request_decode_time_seconds", "request_decode_time_seconds"),
			"prompt_tokens":  is("trtllm_prompt_tokens_total", "prompt_tokens_total"), "generated_tokens": is("trtllm_generation_tokens_total", "generation_tokens_total"),
		},
	},
	{
		engine: "TGI", path: "/metrics", remedy: "check that --port is the port of TGI's router",
		names: map[string][]name{
			"running": is("tgi_batch_current_size"), "waiting": is("tgi_queue_size"),
			"between_tokens": is("tgi_request_mean_time_per_token_duration"), "request": is("tgi_request_duration"), "queue": is("tgi_request_queue_duration"),
			"prefill":       {{"tgi_batch_inference_duration", "method", "prefill"}},
			"decode":        {{"tgi_batch_inference_duration", "method", "decode"}},
			"prompt_tokens": is("tgi_request_input_length"), "generated_tokens": is("tgi_request_generated_tokens"),
		},
	},
	{
		engine: "llama.cpp", path: "/metrics", remedy: "start llama-server with --metrics",
		names: map[string][]name{
			"running": is("llamacpp:requests_processing"), "waiting": is("llamacpp:requests_deferred"), "kv_cache": is("llamacpp:kv_cache_usage_ratio"),
			"prompt_tokens": is("llamacpp:prompt_tokens_total"), "generated_tokens": is("llamacpp:tokens_predicted_total"),
		},
	},
	{
		engine: "Triton", path: "/metrics", port: "--metrics-port", at: 8002, remedy: "start Triton without --allow-metrics=false",
		names: vllm( // of its vLLM backend
			[]name{{"nv_trt_llm_request_metrics", "request_type", "active"}, {metric: "vllm:num_requests_running"}},
			[]name{{"nv_trt_llm_request_metrics", "request_type", "waiting"}, {metric: "vllm:num_requests_waiting"}, {metric: "nv_inference_pending_request_count"}}),
	},
}

// serverOf returns the row of an engine, nil if it has no endpoint that is known.
func serverOf(engine string) *server {
	for i := range servers {
		if servers[i].engine == engine {
			return &servers[i]
		}
	}
	return nil
}
