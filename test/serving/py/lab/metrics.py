# SPDX-License-Identifier: Apache-2.0
"""vLLM's metrics, in the Prometheus text format."""

from bisect import bisect_left

FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
WHOLE = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)

HISTOGRAMS = {
    "time_to_first_token_seconds": FIRST, "inter_token_latency_seconds": BETWEEN, "e2e_request_latency_seconds": WHOLE,
    "request_queue_time_seconds": WHOLE, "request_prefill_time_seconds": WHOLE, "request_decode_time_seconds": WHOLE,
}
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
COUNTERS = ("num_preemptions_total", "prompt_tokens_total", "generation_tokens_total")
REASONS = ("length", "abort")


class Metrics:
    def __init__(self, model):
        self.labels = f'engine="0",model_name="{model}"'
        self.values = dict.fromkeys(GAUGES + COUNTERS, 0)
        self.finished = dict.fromkeys(REASONS, 0)
        self.histograms = {name: [0.0, [0] * (len(bounds) + 1)] for name, bounds in HISTOGRAMS.items()}

    def add(self, name, n):
        self.values[name] += n

    def observe(self, name, ns):
        histogram = self.histograms[name]
        histogram[0] += ns / 1e9
        histogram[1][bisect_left(HISTOGRAMS[name], ns / 1e9)] += 1

    def text(self):
        lines = []
        for name, value in self.values.items():
            lines += [f"# TYPE vllm:{name} {'gauge' if name in GAUGES else 'counter'}", f"vllm:{name}{{{self.labels}}} {value}"]
        lines.append("# TYPE vllm:request_success_total counter")
        lines += [f'vllm:request_success_total{{{self.labels},finished_reason="{r}"}} {n}' for r, n in self.finished.items()]
        for name, (total, counts) in self.histograms.items():
            lines.append(f"# TYPE vllm:{name} histogram")
            below = 0
            for bound, n in zip((*map(float, HISTOGRAMS[name]), "+Inf"), counts):
                below += n
                lines.append(f'vllm:{name}_bucket{{{self.labels},le="{bound}"}} {below}')
            lines += [f"vllm:{name}_sum{{{self.labels}}} {total}", f"vllm:{name}_count{{{self.labels}}} {below}"]
        return "\n".join(lines) + "\n"
