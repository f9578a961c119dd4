package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Config holds all settings.
type Config struct {
	DB     string // path of the database
	Node   string // name of this machine in recordings
	Debug  bool
	Trace  Trace
	Causes Causes
	// TokenFile holds the bearer token that network clients must send; empty: none.
	TokenFile   string
	UpdateCheck bool
	Serve       Serve
	Fleet       Fleet
	// From is the source of each non-default setting, by key: "/etc/ingero/ingero.yaml:3",
	// "INGERO_DB", "--db".
	From map[string]string
	// Unread is a config file in the current directory that was not read, since this process is root
	// and others may have written it; "" if none.
	Unread string

	file string   // --config
	dbs  []string // paths to search for a database if none is named
}

// Serve configures the dashboard and the MCP server.
type Serve struct {
	Addr       string
	Cert, Key  string // paths; empty: self-signed certificate
	NoTLS      bool
	AllowHosts []string
	MCP        string // HTTP listen address; empty: standard input and output
	TestReport string // path of the report of make test-gpu
}

// Fleet configures the queried nodes.
type Fleet struct {
	Nodes []string // empty: query a local database
	CA    string   // path; empty: the system's CA certificates
	Pins  []string // fingerprints of certificate keys
	// Timeout limits the wait for each node; Skew is the threshold for clock skew warnings.
	Timeout, Skew time.Duration
}

// Causes selects which causes of lost time are shown. All causes are detected and recorded.
type Causes struct {
	MinSeverity string   // "LOW", "MEDIUM" or "HIGH", in upper or lower case
	RulesOff    []string // names of rules
}

// Trace configures the trace and run commands.
type Trace struct {
	PIDs         []uint32
	User         string // name, UID, "all", or empty: the caller
	Place        Place  // further restricts the processes
	Cmdline      string // "off", "safe" or "full"
	Kube         Kube
	Inference    Inference
	Duration     time.Duration // 0: until interrupted
	JSON         bool
	Record       bool
	RecordAll    bool
	MaxDB        int64         // bytes; 0: no limit
	MaxAge       time.Duration // 0: no limit
	Verbose      bool
	NoFollow     bool
	CudaLibs     []string // paths; other kinds of libraries are found by name
	MaxOverhead  float64  // share of the traced processes' time; 0: no limit
	Stack        string   // "slow" or "true", "all", "false"
	PyProbe      bool
	Requests     string // "servers", "all", "off"
	PyWalker     string // "auto", "ebpf", "userspace"
	SamplingRate int    // 0: adaptive; 1: all; N: one in N
	RingBytes    int64  // a power of two; 0: the default
	MaxThreads   int    // 0: the default
	NoIO         bool
	NoTCP        bool
	NoNet        bool
	Pages        bool
	LabelSocket  string        // "auto", a path, or empty: none
	LabelSenders string        // "owner", "all" or a group
	Deadband     int           // percent; 0: none
	Heartbeat    time.Duration // 0: none
	Link         string        // "auto", "session", "multi" or "perf"
	Prometheus   string        // listen address for metrics; empty: none
	OTLP         OTLP
	ClickHouse   string // URLs separated by commas; empty: none
	Notify       Notify
}

// Notify configures the webhook for causes; without a URL there is none.
type Notify struct {
	URL        string
	SecretFile string // file of the signing secret; empty: messages are not signed
}

// OTLP configures the OpenTelemetry receiver; without an endpoint there is none.
type OTLP struct {
	Endpoint    string // host:port, a URL, or "env"
	Traces      string // "all", "notable" or "off"
	Protocol    string // "auto", "http/protobuf", "http/json" or "grpc"
	HeadersFile string
	CAFile      string
}

// Place restricts the traced processes. Each field may have several values, separated by commas;
// an empty field restricts nothing.
type Place struct{ Pod, Namespace, Container, Cgroup, Job string }

// Kube configures how to ask Kubernetes for this machine's pods. Without URLs, ingero does not ask.
type Kube struct {
	Kubelet   string // URL
	API       string // URL
	TokenFile string
	CAFile    string // empty: the system's CA certificates
	Insecure  bool
}

// Inference configures how to read the metrics of inference servers.
type Inference struct {
	Metrics string   // "on" or "off"
	URLs    []string // further endpoints, each for a PID if it begins with one: "4821=http://..."
}

// Inputs are all inputs of Load, except the content and owners of files.
type Inputs struct {
	Getenv     func(string) string // nil: no environment. An empty variable counts as unset
	Flags      map[string]string   // flags that were given, by name; see Flags
	UID        int                 // effective UID of this process
	Caller     int                 // UID of the user behind sudo, else UID
	Home       string              // home directory of the caller; empty: none
	Cwd        string
	Hostname   string
	Container  bool   // this process runs in a container
	SystemFile string // empty: /etc/ingero/ingero.yaml
}

const (
	systemFile = "/etc/ingero/ingero.yaml"
	localFile  = "ingero.yaml"
)

// Error is an invalid setting.
type Error struct {
	At   string // its source: "ingero.yaml:3", "INGERO_DB", "--db", or a file
	What string
	Do   string // may be empty
	Err  error  // may be nil
}

// Error returns the source and the problem.
func (e *Error) Error() string { return e.At + ": " + e.What }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// assignment is the value of one setting in one layer.
type assignment struct {
	to    *Setting
	value string
	at    string
	base  string // directory for relative paths
}

// Load merges the layers of settings. Its errors have type *Error.
func Load(in Inputs) (*Config, error) {
	in.fill()
	c, err := in.defaults()
	if err != nil {
		return nil, err
	}
	environment, flags := in.environment(), in.flags()
	// --config names the file to read, so apply it first.
	if err := c.apply(in, pick(environment, configKey), pick(flags, configKey)); err != nil {
		return nil, err
	}
	layers, err := in.files(c.file)
	if err != nil {
		return nil, err
	}
	if err := c.apply(in, append(layers, environment, flags)...); err != nil {
		return nil, err
	}
	c.complete(in)
	c.Unread = in.unread(c.file)
	return c, nil
}

func (in *Inputs) fill() {
	if in.Getenv == nil {
		in.Getenv = func(string) string { return "" }
	}
	if in.SystemFile == "" {
		in.SystemFile = systemFile
	}
}

func (in Inputs) defaults() (*Config, error) {
	c := &Config{From: map[string]string{}}
	for i := range Settings {
		s := &Settings[i]
		if err := s.set(c, s.Default, in, ""); err != nil {
			return nil, &Error{At: s.Key, What: fmt.Sprintf("default %q: %v", s.Default, err)}
		}
	}
	return c, nil
}

// Databases returns the paths where a reader looks for a database, in order: only DB if it was
// named, else each default path of this machine.
func (c *Config) Databases() []string { return c.dbs }

// apply sets the assignments, layer by layer.
func (c *Config) apply(in Inputs, layers ...[]assignment) error {
	for _, layer := range layers {
		if err := c.exclude(in, layer); err != nil {
			return err
		}
		for _, a := range layer {
			if e := a.put(c, in); e != nil {
				return e
			}
			c.From[a.to.Key] = a.at
		}
	}
	return nil
}

// put sets the assigned value.
func (a *assignment) put(c *Config, in Inputs) *Error {
	err := a.to.set(c, a.value, in, a.base)
	if err == nil {
		return nil
	}
	return &Error{At: a.at, What: fmt.Sprintf("%s cannot be %q: %v", a.to.Key, a.value, err), Do: a.to.Help, Err: err}
}

// exclude resets the settings of lower layers that this layer's settings exclude.
func (c *Config) exclude(in Inputs, layer []assignment) error {
	given := map[string]string{}
	for _, a := range layer {
		given[a.to.Key] = a.at
	}
	for _, a := range layer {
		if a.to.Excludes == "" {
			continue
		}
		if _, both := given[a.to.Excludes]; both {
			return &Error{At: a.at, What: fmt.Sprintf("%s and %s cannot be combined", a.to.Key, a.to.Excludes), Do: "remove one of them"}
		}
		other := find(a.to.Excludes)
		if err := other.set(c, other.Default, in, ""); err != nil {
			return &Error{At: other.Key, What: err.Error()}
		}
		delete(c.From, other.Key)
	}
	return nil
}

// complete sets the defaults that depend on the machine.
func (c *Config) complete(in Inputs) {
	const service = "/var/lib/ingero/ingero.db"
	own := filepath.Join(in.Home, ".ingero", "ingero.db")
	switch {
	case c.DB != "":
		c.dbs = []string{c.DB}
	case in.Home == "":
		c.dbs = []string{service}
	case in.Container:
		c.dbs = []string{service, own}
	default:
		c.dbs = []string{own, service}
	}
	// systemd sets the variable for a service with StateDirectory=. Another service that runs ingero has
	// a directory of another name.
	if state, _, _ := strings.Cut(in.Getenv("STATE_DIRECTORY"), ":"); c.DB == "" && filepath.IsAbs(state) && filepath.Base(state) == "ingero" {
		c.dbs = slices.Insert(c.dbs, 0, filepath.Join(state, "ingero.db"))
	}
	c.DB = c.dbs[0]
	if c.Node == "" {
		c.Node = in.Hostname
	}
}

// file is a config file.
type file struct {
	name   string
	absent bool // the file may be absent
}

// places returns the config files to read; later ones override earlier ones.
func (in Inputs) places(named string) []file {
	all := []file{{in.SystemFile, true}}
	if in.UID != 0 && in.Cwd != "" {
		local := filepath.Join(in.Cwd, localFile)
		// This user may have been started in a directory of another user, such as /root, by sudo -u.
		if _, err := os.Lstat(local); !errors.Is(err, fs.ErrPermission) {
			all = append(all, file{local, true})
		}
	}
	if named != "" {
		all = append(all, file{named, false})
	}
	return all
}

// unread returns the config file in the current directory if it exists and is not in places.
func (in Inputs) unread(named string) string {
	local := filepath.Join(in.Cwd, localFile)
	is := func(f file) bool { return sameFile(f.name, local) }
	if _, err := os.Lstat(local); err != nil || in.Cwd == "" || slices.ContainsFunc(in.places(named), is) {
		return ""
	}
	return local
}

// sameFile reports whether two paths name the same file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// files reads the config files. Only the named one must exist.
func (in Inputs) files(named string) (layers [][]assignment, err error) {
	for _, f := range in.places(named) {
		layer, _, errs := in.readFile(f.name, f.absent)
		if len(errs) > 0 {
			return nil, errs[0]
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

func (in Inputs) environment() (out []assignment) {
	for i := range Settings {
		s := &Settings[i]
		if v := in.Getenv(s.Env); s.Env != "" && v != "" {
			out = append(out, assignment{to: s, value: v, at: s.Env, base: in.Cwd})
		}
	}
	return out
}

func (in Inputs) flags() (out []assignment) {
	for i := range Settings {
		s := &Settings[i]
		if v, ok := in.Flags[s.Flag]; ok && s.Flag != "" {
			out = append(out, assignment{to: s, value: v, at: "--" + s.Flag, base: in.Cwd})
		}
	}
	return out
}

func pick(layer []assignment, key string) (out []assignment) {
	for _, a := range layer {
		if a.to.Key == key {
			out = append(out, a)
		}
	}
	return out
}
