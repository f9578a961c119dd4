package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"ingero/internal/causal"
)

// Setting is one row of the table.
type Setting struct {
	Key      string   // in a file; a dot is a level of it
	Env      string   // variable; empty: none
	Flag     string   // without dashes; empty: none
	Short    string   // one letter; empty: none
	Commands []string // that have the flag; nil: all
	Default  string
	Bare     string   // what the flag means without a value; empty: it needs one, but for a bool
	Choices  []string // of a text, when only these will do
	Excludes string   // key of a setting that a higher layer takes back by giving this one
	Hidden   bool     // in help and reference: for tests
	Reload   bool     // a running trace takes a new value when it is sent SIGHUP
	Reads    bool     // it names files that must be there
	Secret   bool     // a URL whose path may be one
	Help     string   // one line, no full stop

	field func(*Config) any   // a pointer, whose type is the setting's kind
	check func(*Config) error // of the value; nil: any will do
}

const configKey = "config"

var (
	tracers = []string{"trace", "run"}
	causing = []string{"trace", "run", "explain", "top"} // that tell causes
	serving = []string{"dashboard", "mcp"}
	asking  = []string{"query", "explain", "export"} // that can ask other machines
	fleets  = slices.Concat(asking, []string{"mcp"})
)

// Settings is the table of all settings.
var Settings = []Setting{
	{Key: configKey, Env: "INGERO_CONFIG", Flag: "config",
		Help:  "a file of settings that is yours or root's",
		field: func(c *Config) any { return (*path)(&c.file) }},
	{Key: "db", Env: "INGERO_DB", Flag: "db", Short: "d",
		Help:  "the database (default ~/.ingero/ingero.db; in a container /var/lib/ingero/ingero.db)",
		field: func(c *Config) any { return (*path)(&c.DB) }},
	{Key: "node", Env: "INGERO_NODE", Flag: "node", Commands: slices.Concat(serving, tracers),
		Help:  "the name of this machine in recordings, and to others (default: its host name)",
		field: func(c *Config) any { return &c.Node }, check: checkNode},
	{Key: "debug", Env: "INGERO_DEBUG", Flag: "debug", Default: "false",
		Help:  "say on standard error what is found and done",
		field: func(c *Config) any { return &c.Debug }},
	{Key: "update-check", Env: "INGERO_UPDATE_CHECK", Commands: []string{"trace", "demo", "explain", "check"}, Default: "true",
		Help:  "ask GitHub once a day whether there is a newer release, and say so; INGERO_NO_UPDATE_NOTIFIER=1: no",
		field: func(c *Config) any { return &c.UpdateCheck }},
	{Key: "token-file", Reads: true, Env: "INGERO_TOKEN_FILE", Flag: "token-file", Commands: slices.Concat(serving, asking),
		Help:  "a file with the token that who asks over the network must have; INGERO_TOKEN has it itself",
		field: func(c *Config) any { return (*path)(&c.TokenFile) }},
	{Key: "dashboard.addr", Env: "INGERO_ADDR", Flag: "addr", Commands: []string{"dashboard"}, Default: ":8080",
		Help:  "where to listen: :8080 for this machine alone, 0.0.0.0:8080 for others too, which needs a token",
		field: func(c *Config) any { return &c.Serve.Addr }},
	{Key: "dashboard.tls-cert", Reads: true, Env: "INGERO_TLS_CERT", Flag: "tls-cert", Commands: serving,
		Help:  "a file with the certificate, in PEM (default: one that is signed by itself, for 24 h)",
		field: func(c *Config) any { return (*path)(&c.Serve.Cert) }},
	{Key: "dashboard.tls-key", Reads: true, Env: "INGERO_TLS_KEY", Flag: "tls-key", Commands: serving,
		Help:  "a file with the key of --tls-cert, in PEM",
		field: func(c *Config) any { return (*path)(&c.Serve.Key) }},
	{Key: "dashboard.no-tls", Env: "INGERO_NO_TLS", Flag: "no-tls", Commands: []string{"dashboard"}, Default: "false",
		Help:  "plain HTTP, for networks that are trusted",
		field: func(c *Config) any { return &c.Serve.NoTLS }},
	{Key: "dashboard.allow-host", Env: "INGERO_ALLOW_HOST", Flag: "allow-host", Commands: serving,
		Help:  "names by which the server may be asked, beside its address: gpu-7,gpu-7.example",
		field: func(c *Config) any { return (*words)(&c.Serve.AllowHosts) }},
	{Key: "mcp.http", Env: "INGERO_HTTP", Flag: "http", Commands: []string{"mcp"},
		Help:  "serve Streamable HTTP over TLS here, not standard input: :8080 for this machine alone, 0.0.0.0:8080 for others too, which needs a token",
		field: func(c *Config) any { return (*address)(&c.Serve.MCP) }},
	{Key: "mcp.test-report", Env: "INGERO_TEST_REPORT", Flag: "test-report", Commands: []string{"mcp"}, Default: "report.json",
		Help:  "the report of make test-gpu, for get_test_report",
		field: func(c *Config) any { return (*path)(&c.Serve.TestReport) }},
	{Key: "fleet.nodes", Env: "INGERO_NODES", Flag: "nodes", Commands: fleets,
		Help:  "ask the ingero dashboard of these machines, not a database here: a:8080,b:8080 (https), http://a:8080; empty: none",
		field: func(c *Config) any { return (*words)(&c.Fleet.Nodes) }},
	{Key: "fleet.ca", Reads: true, Env: "INGERO_CA", Flag: "ca", Commands: fleets,
		Help:  "a file with the certificates that sign those of the machines, in PEM (default: the machine's authorities)",
		field: func(c *Config) any { return (*path)(&c.Fleet.CA) }},
	{Key: "fleet.pin", Env: "INGERO_PIN", Flag: "pin", Commands: fleets,
		Help:  "trust certificates with these fingerprints, as ingero dashboard prints them: sha256:1f2e",
		field: func(c *Config) any { return (*words)(&c.Fleet.Pins) }},
	{Key: "fleet.node-timeout", Env: "INGERO_NODE_TIMEOUT", Flag: "node-timeout", Commands: fleets, Default: "15s",
		Help:  "how long to wait for the answer of one of them; those of the others are told without it",
		field: func(c *Config) any { return &c.Fleet.Timeout }},
	{Key: "fleet.clock-skew-threshold", Env: "INGERO_CLOCK_SKEW_THRESHOLD", Flag: "clock-skew-threshold", Commands: fleets, Default: "10ms",
		Help:  "tell of machines whose clocks are off by this much",
		field: func(c *Config) any { return &c.Fleet.Skew }},
	{Key: "causes.min-severity", Reload: true, Env: "INGERO_MIN_SEVERITY", Flag: "min-severity", Commands: slices.Concat(serving, causing), Default: "LOW",
		Choices: []string{"LOW", "MEDIUM", "HIGH", "low", "medium", "high"},
		Help:    "show causes of this severity or more: LOW, MEDIUM or HIGH; how many are not shown is said",
		field:   func(c *Config) any { return &c.Causes.MinSeverity }},
	{Key: "causes.rules-off", Reload: true, Env: "INGERO_RULES_OFF", Flag: "rules-off", Commands: slices.Concat(causing, serving, []string{"summary"}), Choices: append(causal.RuleNames(), causal.OldName),
		Help:  "hide causes that these rules find: lock-wait,own-threads; docs/reference/detections.md lists the rules",
		field: func(c *Config) any { return (*names)(&c.Causes.RulesOff) }},
	{Key: "trace.pid", Env: "INGERO_PID", Flag: "pid", Short: "p", Commands: []string{"trace"}, Excludes: "trace.user",
		Help:  "trace these processes and their children: 4821,5032",
		field: func(c *Config) any { return &c.Trace.PIDs }},
	{Key: "trace.user", Env: "INGERO_USER", Flag: "user", Commands: []string{"trace"}, Excludes: "trace.pid",
		Help:  "trace this user's processes: a name, a number or \"all\" (default: you; root means all)",
		field: func(c *Config) any { return &c.Trace.User }},
	{Key: "trace.pod", Env: "INGERO_POD", Flag: "pod", Commands: []string{"trace"},
		Help:  "trace the processes of these Kubernetes pods only: a name or an id",
		field: func(c *Config) any { return &c.Trace.Place.Pod }},
	{Key: "trace.namespace", Env: "INGERO_NAMESPACE", Flag: "namespace", Commands: []string{"trace"},
		Help:  "trace the processes of pods of this namespace only",
		field: func(c *Config) any { return &c.Trace.Place.Namespace }},
	{Key: "trace.container", Env: "INGERO_CONTAINER", Flag: "container", Commands: []string{"trace"},
		Help:  "trace the processes of this container only: 6 characters of its id or more, or its name in a pod",
		field: func(c *Config) any { return &c.Trace.Place.Container }},
	{Key: "trace.cgroup", Env: "INGERO_CGROUP", Flag: "cgroup", Commands: []string{"trace"},
		Help:  "trace processes with this in the path of their cgroup only: system.slice",
		field: func(c *Config) any { return &c.Trace.Place.Cgroup }},
	{Key: "trace.job", Env: "INGERO_JOB", Flag: "job", Commands: []string{"trace"},
		Help:  "trace the processes of this batch job only: 123, or with its step 123.0",
		field: func(c *Config) any { return &c.Trace.Place.Job }},
	{Key: "trace.cmdline", Env: "INGERO_CMDLINE", Flag: "cmdline", Commands: tracers, Default: "safe",
		Choices: []string{"off", "safe", "full"},
		Help:    "how much of command lines is kept and shown: nothing, what cannot be a secret, or all",
		field:   func(c *Config) any { return &c.Trace.Cmdline }},
	{Key: "trace.kubelet", Env: "INGERO_KUBELET", Flag: "kubelet", Commands: tracers,
		Help:  "ask this kubelet for the pods of the machine: https://127.0.0.1:10250",
		field: func(c *Config) any { return &c.Trace.Kube.Kubelet }},
	{Key: "trace.kube-api", Env: "INGERO_KUBE_API", Flag: "kube-api", Commands: tracers,
		Help:  "ask this Kubernetes API server for the pods of the node that --node names",
		field: func(c *Config) any { return &c.Trace.Kube.API }},
	{Key: "trace.kube-token-file", Reads: true, Env: "INGERO_KUBE_TOKEN_FILE", Flag: "kube-token-file", Commands: tracers,
		Help:  "the token to ask with (default: the service account's, in a pod)",
		field: func(c *Config) any { return (*path)(&c.Trace.Kube.TokenFile) }},
	{Key: "trace.kube-ca-file", Reads: true, Env: "INGERO_KUBE_CA_FILE", Flag: "kube-ca-file", Commands: tracers,
		Help:  "whose certificates to trust (default: the service account's, in a pod; else the machine's)",
		field: func(c *Config) any { return (*path)(&c.Trace.Kube.CAFile) }},
	{Key: "trace.kube-insecure", Env: "INGERO_KUBE_INSECURE", Flag: "kube-insecure", Commands: tracers, Default: "false",
		Help:  "take any certificate; the token then goes to whoever answers",
		field: func(c *Config) any { return &c.Trace.Kube.Insecure }},
	{Key: "trace.duration", Env: "INGERO_DURATION", Flag: "duration", Commands: tracers, Default: "0",
		Help:  "stop after this time: 60s, 1h30m, 2d; 0: when the processes end, or Ctrl-C",
		field: func(c *Config) any { return &c.Trace.Duration }},
	{Key: "trace.json", Env: "INGERO_JSON", Flag: "json", Commands: tracers, Default: "false",
		Help:  "print lines of JSON, not the table",
		field: func(c *Config) any { return &c.Trace.JSON }},
	{Key: "trace.record", Env: "INGERO_RECORD", Flag: "record", Commands: tracers, Default: "true",
		Help:  "record to the database",
		field: func(c *Config) any { return &c.Trace.Record }},
	{Key: "trace.record-all", Env: "INGERO_RECORD_ALL", Flag: "record-all", Commands: tracers, Default: "false",
		Help:  "record each wait of a thread, however short; calls are all recorded in any case",
		field: func(c *Config) any { return &c.Trace.RecordAll }},
	{Key: "trace.max-db", Reload: true, Env: "INGERO_MAX_DB", Flag: "max-db", Commands: tracers, Default: "10g",
		Help:  "remove the oldest calls when the database takes more: 500m, 10g; 0: never",
		field: func(c *Config) any { return (*byteCount)(&c.Trace.MaxDB) }, check: checkMaxDB},
	{Key: "trace.max-age", Reload: true, Env: "INGERO_MAX_AGE", Flag: "max-age", Commands: tracers, Default: "0",
		Help:  "remove calls that are older: 12h, 30d; 0: never",
		field: func(c *Config) any { return &c.Trace.MaxAge }},
	{Key: "trace.verbose", Env: "INGERO_VERBOSE", Flag: "verbose", Short: "v", Commands: tracers, Default: "false",
		Help:  "print each call",
		field: func(c *Config) any { return &c.Trace.Verbose }},
	{Key: "trace.no-follow", Env: "INGERO_NO_FOLLOW", Flag: "no-follow", Commands: tracers, Default: "false",
		Help:  "leave children out, and probe the named processes only",
		field: func(c *Config) any { return &c.Trace.NoFollow }},
	{Key: "trace.cuda-lib", Reads: true, Env: "INGERO_CUDA_LIB", Flag: "cuda-lib", Commands: tracers,
		Help:  "the only libcudart, libcuda or libnccl to trace, can be repeated (default: each that a process loads)",
		field: func(c *Config) any { return (*paths)(&c.Trace.CudaLibs) }},
	{Key: "trace.probe-budget", Env: "INGERO_PROBE_BUDGET", Flag: "probe-budget", Commands: tracers, Default: "2%",
		Help:  "another name of --max-overhead, which goes before it",
		field: func(c *Config) any { return (*share)(&c.Trace.MaxOverhead) }},
	{Key: "trace.max-overhead", Env: "INGERO_MAX_OVERHEAD", Flag: "max-overhead", Commands: tracers, Default: "2%",
		Help:  "leave things out, one after the other, while tracing takes more than this share of the time of the traced processes; 0: never",
		field: func(c *Config) any { return (*share)(&c.Trace.MaxOverhead) }},
	{Key: "trace.stack", Env: "INGERO_STACK", Flag: "stack", Commands: tracers, Default: "slow", Bare: "slow",
		Choices: []string{"slow", "all", "false", "true"},
		Help:    "which calls keep their stack, the functions they were made from; slow (also: true): those slow or failed, the first from each place, and a sample; all; false: none",
		field:   func(c *Config) any { return &c.Trace.Stack }},
	{Key: "trace.py-walker", Env: "INGERO_PY_WALKER", Flag: "py-walker", Commands: tracers, Default: "auto",
		Choices: []string{"auto", "ebpf", "userspace"},
		Help:    "who reads the Python functions of stacks: the kernel (ebpf, also: auto), as the call is made; or the agent (userspace), a moment later, which is right for threads that stand still",
		field:   func(c *Config) any { return &c.Trace.PyWalker }},
	{Key: "trace.py-probe", Env: "INGERO_PY_PROBE", Flag: "py-probe", Commands: tracers, Default: "false",
		Help:  "where no offsets are known for a CPython, run a copy of it for up to 2 s, without rights, network and environment, to find them",
		field: func(c *Config) any { return &c.Trace.PyProbe }},
	{Key: "trace.sampling-rate", Env: "INGERO_SAMPLING_RATE", Flag: "sampling-rate", Commands: tracers, Default: "0",
		Help:  "record 1 in N of the calls that return at once; 0: all, until there are too many; counts stay exact",
		field: func(c *Config) any { return &c.Trace.SamplingRate }, check: checkRate},
	{Key: "trace.ringbuf-size", Env: "INGERO_RINGBUF_SIZE", Flag: "ringbuf-size", Commands: tracers, Default: "0",
		Help:  "buffer for records from the kernel: a power of two from 4096; 0: 8m",
		field: func(c *Config) any { return (*byteCount)(&c.Trace.RingBytes) }, check: checkRing},
	{Key: "trace.no-io", Env: "INGERO_NO_IO", Flag: "no-io", Commands: tracers, Default: "false",
		Help:  "leave block I/O alone",
		field: func(c *Config) any { return &c.Trace.NoIO }},
	{Key: "trace.no-tcp", Env: "INGERO_NO_TCP", Flag: "no-tcp", Commands: tracers, Default: "false",
		Help:  "leave TCP retransmits alone",
		field: func(c *Config) any { return &c.Trace.NoTCP }},
	{Key: "trace.no-net", Env: "INGERO_NO_NET", Flag: "no-net", Commands: tracers, Default: "false",
		Help:  "leave sockets alone: connects, sends, receives",
		field: func(c *Config) any { return &c.Trace.NoNet }},
	{Key: "trace.pages", Env: "INGERO_PAGES", Flag: "pages", Commands: tracers, Default: "false",
		Help:  "count the page allocations of traced processes, by order",
		field: func(c *Config) any { return &c.Trace.Pages }},
	{Key: "trace.deadband", Env: "INGERO_DEADBAND", Flag: "deadband", Commands: tracers, Default: "0",
		Help:  "keep no snapshot of a machine that is idle and moved by less than this percentage; 0: keep each",
		field: func(c *Config) any { return &c.Trace.Deadband }, check: checkDeadband},
	{Key: "trace.heartbeat", Env: "INGERO_HEARTBEAT", Flag: "heartbeat", Commands: tracers, Default: "0",
		Help:  "with --deadband keep a snapshot after this time in any case: 30s; 0: never",
		field: func(c *Config) any { return &c.Trace.Heartbeat }},
	{Key: "trace.prometheus", Env: "INGERO_PROMETHEUS", Flag: "prometheus", Commands: tracers,
		Help:  "serve metrics for Prometheus: :9090 for this machine only, 0.0.0.0:9090 for all that reach it",
		field: func(c *Config) any { return (*address)(&c.Trace.Prometheus) }},
	{Key: "trace.otlp", Env: "INGERO_OTLP", Flag: "otlp", Commands: tracers,
		Help:  "send metrics, spans and logs to this OpenTelemetry receiver: localhost:4318, https://host; env: as OTEL_EXPORTER_OTLP_ENDPOINT says",
		field: func(c *Config) any { return &c.Trace.OTLP.Endpoint }},
	{Key: "trace.otlp-traces", Env: "INGERO_OTLP_TRACES", Flag: "otlp-traces", Commands: tracers, Default: "notable",
		Choices: []string{"all", "notable", "off"},
		Help:    "with --otlp, which calls become spans: all; notable: those slow or failed, and a sample; off: none",
		field:   func(c *Config) any { return &c.Trace.OTLP.Traces }},
	{Key: "trace.otlp-protocol", Env: "INGERO_OTLP_PROTOCOL", Flag: "otlp-protocol", Commands: tracers, Default: "auto",
		Choices: []string{"auto", "http/protobuf", "http/json", "grpc"},
		Help:    "with --otlp, how to send: http/protobuf, http/json or grpc; auto: grpc to port 4317, else http/protobuf",
		field:   func(c *Config) any { return &c.Trace.OTLP.Protocol }},
	{Key: "trace.otlp-headers-file", Reads: true, Env: "INGERO_OTLP_HEADERS_FILE", Flag: "otlp-headers-file", Commands: tracers,
		Help:  "with --otlp, a file with a line for each header to send: Authorization: Bearer TOKEN",
		field: func(c *Config) any { return (*path)(&c.Trace.OTLP.HeadersFile) }},
	{Key: "trace.otlp-ca-file", Reads: true, Env: "INGERO_OTLP_CA_FILE", Flag: "otlp-ca-file", Commands: tracers,
		Help:  "with --otlp, whose certificates to trust (default: the machine's)",
		field: func(c *Config) any { return (*path)(&c.Trace.OTLP.CAFile) }},
	{Key: "trace.clickhouse", Env: "INGERO_CLICKHOUSE", Flag: "clickhouse", Commands: tracers,
		Help:  "copy what is recorded to this ClickHouse cluster: http://a:8123,http://b:8123",
		field: func(c *Config) any { return &c.Trace.ClickHouse }},
	{Key: "trace.notify", Secret: true, Env: "INGERO_NOTIFY", Flag: "notify", Commands: tracers,
		Help:  "tell this webhook of causes of lost time, as they begin, get worse and end: https://hooks.example.com/x",
		field: func(c *Config) any { return &c.Trace.Notify.URL }},
	{Key: "trace.notify-secret-file", Reads: true, Env: "INGERO_NOTIFY_SECRET_FILE", Flag: "notify-secret-file", Commands: tracers,
		Help:  "a file with the secret that --notify signs with; INGERO_NOTIFY_SECRET has it itself",
		field: func(c *Config) any { return (*path)(&c.Trace.Notify.SecretFile) }},
	{Key: "trace.link", Env: "INGERO_LINK", Flag: "link", Commands: tracers, Default: "auto", Hidden: true,
		Choices: []string{"auto", "session", "multi", "perf"},
		Help:    "how probes are attached",
		field:   func(c *Config) any { return &c.Trace.Link }},
}

// find returns the setting of a key, nil when there is none.
func find(key string) *Setting {
	for i := range Settings {
		if Settings[i].Key == key {
			return &Settings[i]
		}
	}
	return nil
}

// For tells whether a command has the setting.
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
	if len(c.Node) > 253 { // the longest host name
		return errors.New("it has more than 253 characters")
	}
	if strings.ContainsFunc(c.Node, func(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return errors.New("a colon, white space and control characters may not be in it")
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
	const least = 16 << 20 // what is small and kept needs some
	if n := c.Trace.MaxDB; n < 0 || n > 0 && n < least {
		return errors.New("it must be 0 or at least 16m")
	}
	return nil
}

func checkRing(c *Config) error {
	const least, most = 4 << 10, 1 << 30 // the kernel's ring has 32-bit offsets
	n := c.Trace.RingBytes
	if n != 0 && (n < least || n > most || n&(n-1) != 0) {
		return errors.New("it must be a power of two from 4096 to 1g")
	}
	return nil
}
