package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"ingero/internal/causal"
)

// Setting is one row of the table of settings.
type Setting struct {
	Key      string   // key in a file; a dot separates levels
	Env      string   // environment variable; empty: none
	Flag     string   // without dashes; empty: none
	Short    string   // one letter; empty: none
	Commands []string // commands with the flag; nil: all
	Default  string
	Bare     string   // value of the flag without an argument; empty: required, except for a bool
	Choices  []string // permitted values of a text; nil: any
	Excludes string   // key of a setting in lower layers that this one resets
	Hidden   bool     // omitted from help and reference: for tests
	Reload   bool     // a running trace applies a new value on SIGHUP
	Reads    bool     // names files that must exist
	Secret   bool     // a URL whose path may be a secret
	Help     string   // one line, without a full stop

	field func(*Config) any   // pointer whose type is the setting's kind
	check func(*Config) error // validates the value; nil: any is valid
}

const configKey = "config"

var (
	tracers = []string{"trace", "run"}
	causing = []string{"trace", "run", "explain", "top"} // commands that show causes
	serving = []string{"dashboard", "mcp"}
	asking  = []string{"query", "explain", "export"} // commands that can query other nodes
	fleets  = slices.Concat(asking, []string{"mcp"})
)

// Settings is the table of all settings.
var Settings = []Setting{
	{Key: configKey, Env: "INGERO_CONFIG", Flag: "config",
		Help:  "config file (must be owned by you or root)",
		field: func(c *Config) any { return (*path)(&c.file) }},
	{Key: "db", Env: "INGERO_DB", Flag: "db", Short: "d",
		Help:  "database file (default ~/.ingero/ingero.db; in a container /var/lib/ingero/ingero.db)",
		field: func(c *Config) any { return (*path)(&c.DB) }},
	{Key: "node", Env: "INGERO_NODE", Flag: "node", Commands: slices.Concat(serving, tracers),
		Help:  "name of this machine in recordings and for other machines (default: its host name)",
		field: func(c *Config) any { return &c.Node }, check: checkNode},
	{Key: "debug", Env: "INGERO_DEBUG", Flag: "debug", Default: "false",
		Help:  "log debug messages to standard error",
		field: func(c *Config) any { return &c.Debug }},
	{Key: "update-check", Env: "INGERO_UPDATE_CHECK", Commands: []string{"trace", "demo", "explain", "check"}, Default: "true",
		Help:  "check GitHub once a day for a newer release and report it (INGERO_NO_UPDATE_NOTIFIER=1 disables the check)",
		field: func(c *Config) any { return &c.UpdateCheck }},
	{Key: "token-file", Reads: true, Env: "INGERO_TOKEN_FILE", Flag: "token-file", Commands: slices.Concat(serving, asking),
		Help:  "file that holds the bearer token that network clients must send (or set INGERO_TOKEN to the token)",
		field: func(c *Config) any { return (*path)(&c.TokenFile) }},
	{Key: "dashboard.addr", Env: "INGERO_ADDR", Flag: "addr", Commands: []string{"dashboard"}, Default: ":8080",
		Help:  "listen address: :8080 for this machine only, 0.0.0.0:8080 for other machines too (requires a token)",
		field: func(c *Config) any { return &c.Serve.Addr }},
	{Key: "dashboard.tls-cert", Reads: true, Env: "INGERO_TLS_CERT", Flag: "tls-cert", Commands: serving,
		Help:  "certificate file for TLS, in PEM (default: a self-signed certificate, valid for 24 h)",
		field: func(c *Config) any { return (*path)(&c.Serve.Cert) }},
	{Key: "dashboard.tls-key", Reads: true, Env: "INGERO_TLS_KEY", Flag: "tls-key", Commands: serving,
		Help:  "private key file of --tls-cert, in PEM",
		field: func(c *Config) any { return (*path)(&c.Serve.Key) }},
	{Key: "dashboard.no-tls", Env: "INGERO_NO_TLS", Flag: "no-tls", Commands: []string{"dashboard"}, Default: "false",
		Help:  "serve plain HTTP; use it on trusted networks only",
		field: func(c *Config) any { return &c.Serve.NoTLS }},
	{Key: "dashboard.allow-host", Env: "INGERO_ALLOW_HOST", Flag: "allow-host", Commands: serving,
		Help:  "host names to accept in requests, besides the server's address: gpu-7,gpu-7.example",
		field: func(c *Config) any { return (*words)(&c.Serve.AllowHosts) }},
	{Key: "mcp.http", Env: "INGERO_HTTP", Flag: "http", Commands: []string{"mcp"},
		Help:  "serve Streamable HTTP over TLS on this address instead of standard input: :8080 for this machine only, 0.0.0.0:8080 for other machines too (requires a token)",
		field: func(c *Config) any { return (*address)(&c.Serve.MCP) }},
	{Key: "mcp.test-report", Env: "INGERO_TEST_REPORT", Flag: "test-report", Commands: []string{"mcp"}, Default: "report.json",
		Help:  "report of make test-gpu, for get_test_report",
		field: func(c *Config) any { return (*path)(&c.Serve.TestReport) }},
	{Key: "fleet.nodes", Env: "INGERO_NODES", Flag: "nodes", Commands: fleets,
		Help:  "query the ingero dashboard of these nodes instead of a local database: a:8080,b:8080 (https), http://a:8080; empty: none",
		field: func(c *Config) any { return (*words)(&c.Fleet.Nodes) }},
	{Key: "fleet.ca", Reads: true, Env: "INGERO_CA", Flag: "ca", Commands: fleets,
		Help:  "file with the CA certificates of the nodes, in PEM (default: the system's CAs)",
		field: func(c *Config) any { return (*path)(&c.Fleet.CA) }},
	{Key: "fleet.pin", Env: "INGERO_PIN", Flag: "pin", Commands: fleets,
		Help:  "trust certificates with these fingerprints, as printed by ingero dashboard: sha256:1f2e",
		field: func(c *Config) any { return (*words)(&c.Fleet.Pins) }},
	{Key: "fleet.node-timeout", Env: "INGERO_NODE_TIMEOUT", Flag: "node-timeout", Commands: fleets, Default: "15s",
		Help:  "time to wait for each node's answer; a node that times out is reported and left out",
		field: func(c *Config) any { return &c.Fleet.Timeout }},
	{Key: "fleet.clock-skew-threshold", Env: "INGERO_CLOCK_SKEW_THRESHOLD", Flag: "clock-skew-threshold", Commands: fleets, Default: "10ms",
		Help:  "warn when a node's clock differs by more than this",
		field: func(c *Config) any { return &c.Fleet.Skew }},
	{Key: "causes.min-severity", Reload: true, Env: "INGERO_MIN_SEVERITY", Flag: "min-severity", Commands: slices.Concat(serving, causing), Default: "LOW",
		Choices: []string{"LOW", "MEDIUM", "HIGH", "low", "medium", "high"},
		Help:    "minimum severity to show: LOW, MEDIUM or HIGH; hidden causes are counted in a footer",
		field:   func(c *Config) any { return &c.Causes.MinSeverity }},
	{Key: "causes.rules-off", Reload: true, Env: "INGERO_RULES_OFF", Flag: "rules-off", Commands: slices.Concat(causing, serving, []string{"summary"}), Choices: append(causal.RuleNames(), causal.OldName),
		Help:  "hide causes found by these rules: lock-wait,own-threads (docs/reference/detections.md lists the rules)",
		field: func(c *Config) any { return (*names)(&c.Causes.RulesOff) }},
	{Key: "trace.pid", Env: "INGERO_PID", Flag: "pid", Short: "p", Commands: []string{"trace"}, Excludes: "trace.user",
		Help:  "trace these processes and their children: 4821,5032",
		field: func(c *Config) any { return &c.Trace.PIDs }},
	{Key: "trace.user", Env: "INGERO_USER", Flag: "user", Commands: []string{"trace"}, Excludes: "trace.pid",
		Help:  "trace the processes of this user: a name, a UID or \"all\" (default: you; for root: all)",
		field: func(c *Config) any { return &c.Trace.User }},
	{Key: "trace.pod", Env: "INGERO_POD", Flag: "pod", Commands: []string{"trace"},
		Help:  "trace only the processes of these Kubernetes pods: a name or an ID",
		field: func(c *Config) any { return &c.Trace.Place.Pod }},
	{Key: "trace.namespace", Env: "INGERO_NAMESPACE", Flag: "namespace", Commands: []string{"trace"},
		Help:  "trace only the processes of pods in this Kubernetes namespace",
		field: func(c *Config) any { return &c.Trace.Place.Namespace }},
	{Key: "trace.container", Env: "INGERO_CONTAINER", Flag: "container", Commands: []string{"trace"},
		Help:  "trace only the processes of this container: at least 6 characters of its ID, or its name in a pod",
		field: func(c *Config) any { return &c.Trace.Place.Container }},
	{Key: "trace.cgroup", Env: "INGERO_CGROUP", Flag: "cgroup", Commands: []string{"trace"},
		Help:  "trace only the processes whose cgroup path contains this: system.slice",
		field: func(c *Config) any { return &c.Trace.Place.Cgroup }},
	{Key: "trace.job", Env: "INGERO_JOB", Flag: "job", Commands: []string{"trace"},
		Help:  "trace only the processes of this batch job: 123, or 123.0 with its step",
		field: func(c *Config) any { return &c.Trace.Place.Job }},
	{Key: "trace.cmdline", Env: "INGERO_CMDLINE", Flag: "cmdline", Commands: tracers, Default: "safe",
		Choices: []string{"off", "safe", "full"},
		Help:    "how much of command lines to record and show: off: nothing; safe: all but possible secrets; full: everything",
		field:   func(c *Config) any { return &c.Trace.Cmdline }},
	{Key: "trace.kubelet", Env: "INGERO_KUBELET", Flag: "kubelet", Commands: tracers,
		Help:  "kubelet to ask for this machine's pods: https://127.0.0.1:10250",
		field: func(c *Config) any { return &c.Trace.Kube.Kubelet }},
	{Key: "trace.kube-api", Env: "INGERO_KUBE_API", Flag: "kube-api", Commands: tracers,
		Help:  "address of the Kubernetes API server that lists the pods of the node named by --node",
		field: func(c *Config) any { return &c.Trace.Kube.API }},
	{Key: "trace.kube-token-file", Reads: true, Env: "INGERO_KUBE_TOKEN_FILE", Flag: "kube-token-file", Commands: tracers,
		Help:  "file that holds the bearer token for Kubernetes (default: the service account's, in a pod)",
		field: func(c *Config) any { return (*path)(&c.Trace.Kube.TokenFile) }},
	{Key: "trace.kube-ca-file", Reads: true, Env: "INGERO_KUBE_CA_FILE", Flag: "kube-ca-file", Commands: tracers,
		Help:  "file with the CA certificates of Kubernetes, in PEM (default: the service account's in a pod, else the system's)",
		field: func(c *Config) any { return (*path)(&c.Trace.Kube.CAFile) }},
	{Key: "trace.kube-insecure", Env: "INGERO_KUBE_INSECURE", Flag: "kube-insecure", Commands: tracers, Default: "false",
		Help:  "accept any Kubernetes certificate (insecure: any server that answers gets the token)",
		field: func(c *Config) any { return &c.Trace.Kube.Insecure }},
	{Key: "trace.inference-metrics", Env: "INGERO_INFERENCE_METRICS", Flag: "inference-metrics", Commands: tracers, Default: "on",
		Choices: []string{"on", "off"},
		Help:    "read the metrics of inference servers (vLLM, SGLang and others) on this machine, from loopback addresses: on or off",
		field:   func(c *Config) any { return &c.Trace.Inference.Metrics }},
	{Key: "trace.inference-metrics-url", Env: "INGERO_INFERENCE_METRICS_URL", Flag: "inference-metrics-url", Commands: tracers,
		Help:  "further metrics of inference servers to read, also on other machines: http://10.0.0.5:8000/metrics, or 4821=URL for PID 4821",
		field: func(c *Config) any { return (*words)(&c.Trace.Inference.URLs) }},
	{Key: "trace.duration", Env: "INGERO_DURATION", Flag: "duration", Commands: tracers, Default: "0",
		Help:  "stop after this time: 60s, 1h30m, 2d; 0: stop when the processes end, or on Ctrl-C",
		field: func(c *Config) any { return &c.Trace.Duration }},
	{Key: "trace.json", Env: "INGERO_JSON", Flag: "json", Commands: tracers, Default: "false",
		Help:  "print JSON lines instead of the table",
		field: func(c *Config) any { return &c.Trace.JSON }},
	{Key: "trace.record", Env: "INGERO_RECORD", Flag: "record", Commands: tracers, Default: "true",
		Help:  "record to the database",
		field: func(c *Config) any { return &c.Trace.Record }},
	{Key: "trace.record-all", Env: "INGERO_RECORD_ALL", Flag: "record-all", Commands: tracers, Default: "false",
		Help:  "record every wait of a thread, however short; does not affect calls",
		field: func(c *Config) any { return &c.Trace.RecordAll }},
	{Key: "trace.max-db", Reload: true, Env: "INGERO_MAX_DB", Flag: "max-db", Commands: tracers, Default: "10g",
		Help:  "remove the oldest calls when the database exceeds this size: 500m, 10g; 0: never",
		field: func(c *Config) any { return (*byteCount)(&c.Trace.MaxDB) }, check: checkMaxDB},
	{Key: "trace.max-age", Reload: true, Env: "INGERO_MAX_AGE", Flag: "max-age", Commands: tracers, Default: "0",
		Help:  "remove calls older than this: 12h, 30d; 0: never",
		field: func(c *Config) any { return &c.Trace.MaxAge }},
	{Key: "trace.verbose", Env: "INGERO_VERBOSE", Flag: "verbose", Short: "v", Commands: tracers, Default: "false",
		Help:  "print each call",
		field: func(c *Config) any { return &c.Trace.Verbose }},
	{Key: "trace.no-follow", Env: "INGERO_NO_FOLLOW", Flag: "no-follow", Commands: tracers, Default: "false",
		Help:  "trace only the named processes, not their children",
		field: func(c *Config) any { return &c.Trace.NoFollow }},
	{Key: "trace.cuda-lib", Reads: true, Env: "INGERO_CUDA_LIB", Flag: "cuda-lib", Commands: tracers,
		Help:  "the only libcudart, libcuda or libnccl to trace; can be repeated (default: each one that a process loads)",
		field: func(c *Config) any { return (*paths)(&c.Trace.CudaLibs) }},
	{Key: "trace.probe-budget", Env: "INGERO_PROBE_BUDGET", Flag: "probe-budget", Commands: tracers, Default: "2%",
		Help:  "another name for --max-overhead, which takes precedence",
		field: func(c *Config) any { return (*share)(&c.Trace.MaxOverhead) }},
	{Key: "trace.max-overhead", Env: "INGERO_MAX_OVERHEAD", Flag: "max-overhead", Commands: tracers, Default: "2%",
		Help:  "shed features, in order, while overhead exceeds this share of the traced processes' time; 0: never",
		field: func(c *Config) any { return (*share)(&c.Trace.MaxOverhead) }},
	{Key: "trace.stack", Env: "INGERO_STACK", Flag: "stack", Commands: tracers, Default: "slow", Bare: "slow",
		Choices: []string{"slow", "all", "off", "false", "true"},
		Help:    "calls to record a stack for: slow (also: true): slow or failed calls, the first from each place, and a sample; all; off, false: none",
		field:   func(c *Config) any { return &c.Trace.Stack }},
	{Key: "trace.py-walker", Env: "INGERO_PY_WALKER", Flag: "py-walker", Commands: tracers, Default: "auto",
		Choices: []string{"auto", "ebpf", "userspace"},
		Help:    "reader of Python functions of stacks: ebpf (the kernel, during the call) or userspace (the agent, afterwards, reliable only for blocked threads); auto is ebpf",
		field:   func(c *Config) any { return &c.Trace.PyWalker }},
	{Key: "trace.py-probe", Env: "INGERO_PY_PROBE", Flag: "py-probe", Commands: tracers, Default: "false",
		Help:  "find unknown CPython offsets by running a copy of that CPython for up to 2 s, without privileges, network and environment",
		field: func(c *Config) any { return &c.Trace.PyProbe }},
	{Key: "trace.requests", Env: "INGERO_REQUESTS", Flag: "requests", Commands: tracers, Default: "servers",
		Choices: []string{"servers", "all", "off"},
		Help:    "measure HTTP/1.1 requests to servers (Linux 6.3): those to recognized inference servers; all: those to any traced process; off: none",
		field:   func(c *Config) any { return &c.Trace.Requests }},
	{Key: "trace.sampling-rate", Env: "INGERO_SAMPLING_RATE", Flag: "sampling-rate", Commands: tracers, Default: "0",
		Help:  "record 1 in N of the calls that return immediately; 0: all, until there are too many; counts stay exact",
		field: func(c *Config) any { return &c.Trace.SamplingRate }, check: checkRate},
	{Key: "trace.ringbuf-size", Env: "INGERO_RINGBUF_SIZE", Flag: "ringbuf-size", Commands: tracers, Default: "0",
		Help:  "size of the ring buffer for kernel records: a power of two from 4096; 0: 8m",
		field: func(c *Config) any { return (*byteCount)(&c.Trace.RingBytes) }, check: checkRing},
	{Key: "trace.max-threads", Env: "INGERO_MAX_THREADS", Flag: "max-threads", Commands: tracers, Default: "0",
		Help:  "threads whose calls are timed at the same time; each takes 4 KB of kernel memory; 0: 8192",
		field: func(c *Config) any { return &c.Trace.MaxThreads }, check: checkMaxThreads},
	{Key: "trace.no-io", Env: "INGERO_NO_IO", Flag: "no-io", Commands: tracers, Default: "false",
		Help:  "do not trace block I/O",
		field: func(c *Config) any { return &c.Trace.NoIO }},
	{Key: "trace.no-tcp", Env: "INGERO_NO_TCP", Flag: "no-tcp", Commands: tracers, Default: "false",
		Help:  "do not trace TCP retransmits",
		field: func(c *Config) any { return &c.Trace.NoTCP }},
	{Key: "trace.no-net", Env: "INGERO_NO_NET", Flag: "no-net", Commands: tracers, Default: "false",
		Help:  "do not trace sockets: connects, sends, receives",
		field: func(c *Config) any { return &c.Trace.NoNet }},
	{Key: "trace.pages", Env: "INGERO_PAGES", Flag: "pages", Commands: tracers, Default: "false",
		Help:  "count the page allocations of traced processes, by order",
		field: func(c *Config) any { return &c.Trace.Pages }},
	{Key: "trace.label-socket", Env: "INGERO_LABEL_SOCKET", Flag: "label-socket", Commands: append(slices.Clone(tracers), "annotate"), Default: "auto",
		Help:  "socket by which programs say what they do: a path; auto: ingero-labels.sock in /run; empty: none (docs/guides/labels.md)",
		field: func(c *Config) any { return &c.Trace.LabelSocket }},
	{Key: "trace.label-senders", Env: "INGERO_LABEL_SENDERS", Flag: "label-senders", Commands: tracers, Default: "owner",
		Help:  "who may send labels: owner (the user that traces, and root), all, or a group; others may label only their own processes",
		field: func(c *Config) any { return &c.Trace.LabelSenders }},
	{Key: "trace.deadband", Env: "INGERO_DEADBAND", Flag: "deadband", Commands: tracers, Default: "0",
		Help:  "drop snapshots of an idle machine that changed by less than this percentage; 0: keep all",
		field: func(c *Config) any { return &c.Trace.Deadband }, check: checkDeadband},
	{Key: "trace.heartbeat", Env: "INGERO_HEARTBEAT", Flag: "heartbeat", Commands: tracers, Default: "0",
		Help:  "with --deadband, keep a snapshot after this time in any case: 30s; 0: never",
		field: func(c *Config) any { return &c.Trace.Heartbeat }},
	{Key: "trace.prometheus", Env: "INGERO_PROMETHEUS", Flag: "prometheus", Commands: tracers,
		Help:  "serve Prometheus metrics on this address: :9090 for this machine only, 0.0.0.0:9090 for other machines too",
		field: func(c *Config) any { return (*address)(&c.Trace.Prometheus) }},
	{Key: "trace.otlp", Env: "INGERO_OTLP", Flag: "otlp", Commands: tracers,
		Help:  "send metrics, spans and logs to this OpenTelemetry receiver: localhost:4318, https://host; env: use OTEL_EXPORTER_OTLP_ENDPOINT",
		field: func(c *Config) any { return &c.Trace.OTLP.Endpoint }},
	{Key: "trace.otlp-traces", Env: "INGERO_OTLP_TRACES", Flag: "otlp-traces", Commands: tracers, Default: "notable",
		Choices: []string{"all", "notable", "off"},
		Help:    "with --otlp, calls to send as spans: all; notable: slow or failed calls, and a sample; off: none",
		field:   func(c *Config) any { return &c.Trace.OTLP.Traces }},
	{Key: "trace.otlp-protocol", Env: "INGERO_OTLP_PROTOCOL", Flag: "otlp-protocol", Commands: tracers, Default: "auto",
		Choices: []string{"auto", "http/protobuf", "http/json", "grpc"},
		Help:    "with --otlp, protocol: http/protobuf, http/json or grpc; auto: grpc for port 4317, else http/protobuf",
		field:   func(c *Config) any { return &c.Trace.OTLP.Protocol }},
	{Key: "trace.otlp-headers-file", Reads: true, Env: "INGERO_OTLP_HEADERS_FILE", Flag: "otlp-headers-file", Commands: tracers,
		Help:  "with --otlp, file with one header to send on each line: Authorization: Bearer TOKEN",
		field: func(c *Config) any { return (*path)(&c.Trace.OTLP.HeadersFile) }},
	{Key: "trace.otlp-ca-file", Reads: true, Env: "INGERO_OTLP_CA_FILE", Flag: "otlp-ca-file", Commands: tracers,
		Help:  "with --otlp, file with the receiver's CA certificates, in PEM (default: the system's CAs)",
		field: func(c *Config) any { return (*path)(&c.Trace.OTLP.CAFile) }},
	{Key: "trace.clickhouse", Env: "INGERO_CLICKHOUSE", Flag: "clickhouse", Commands: tracers,
		Help:  "copy recordings to this ClickHouse cluster: http://a:8123,http://b:8123",
		field: func(c *Config) any { return &c.Trace.ClickHouse }},
	{Key: "trace.notify", Secret: true, Env: "INGERO_NOTIFY", Flag: "notify", Commands: tracers,
		Help:  "send each cause of lost time to this webhook when it begins, gets worse and ends: https://hooks.example.com/x",
		field: func(c *Config) any { return &c.Trace.Notify.URL }},
	{Key: "trace.notify-secret-file", Reads: true, Env: "INGERO_NOTIFY_SECRET_FILE", Flag: "notify-secret-file", Commands: tracers,
		Help:  "file that holds the secret that signs --notify messages (or set INGERO_NOTIFY_SECRET to the secret)",
		field: func(c *Config) any { return (*path)(&c.Trace.Notify.SecretFile) }},
	{Key: "trace.link", Env: "INGERO_LINK", Flag: "link", Commands: tracers, Default: "auto", Hidden: true,
		Choices: []string{"auto", "session", "multi", "perf"},
		Help:    "how probes are attached",
		field:   func(c *Config) any { return &c.Trace.Link }},
}

// find returns the setting with a key, nil if there is none.
func find(key string) *Setting {
	for i := range Settings {
		if Settings[i].Key == key {
			return &Settings[i]
		}
	}
	return nil
}

// For reports whether a command has the setting.
func (s *Setting) For(command string) bool {
	if s.Commands == nil {
		return true
	}
	for _, c := range s.Commands {
		if c == command {
			return true
		}
	}
	return false
}

func checkNode(c *Config) error {
	if len(c.Node) > 253 { // maximum length of a host name
		return errors.New("it must have at most 253 characters")
	}
	if strings.ContainsFunc(c.Node, func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return errors.New("it must not contain colons, white space or control characters")
	}
	return nil
}

func checkRate(c *Config) error {
	const most = 1 << 20
	if c.Trace.SamplingRate < 0 || c.Trace.SamplingRate > most {
		return fmt.Errorf("it must be from 0 to %d", most)
	}
	return nil
}

func checkDeadband(c *Config) error {
	if d := c.Trace.Deadband; d < 0 || d > 100 {
		return errors.New("it must be from 0 to 100")
	}
	return nil
}

func checkMaxDB(c *Config) error {
	const least = 16 << 20 // room for data that is never removed
	if n := c.Trace.MaxDB; n < 0 || n > 0 && n < least {
		return errors.New("it must be 0 or at least 16m")
	}
	return nil
}

func checkMaxThreads(c *Config) error {
	if n := c.Trace.MaxThreads; n < 0 || n > 1<<20 {
		return errors.New("it must be from 0 to 1048576")
	}
	return nil
}

func checkRing(c *Config) error {
	const least, most = 4 << 10, 1 << 30 // offsets in the kernel's ring buffer have 32 bits
	n := c.Trace.RingBytes
	if n != 0 && (n < least || n > most || n&(n-1) != 0) {
		return errors.New("it must be a power of two from 4096 to 1g")
	}
	return nil
}
