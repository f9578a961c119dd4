package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Config is all settings.
type Config struct {
	DB     string // path of the database
	Node   string // name of this machine in what is recorded
	Debug  bool
	Trace  Trace
	Causes Causes
	// TokenFile has what others must know who ask over the network; empty: none.
	TokenFile   string
	UpdateCheck bool
	Serve       Serve
	Fleet       Fleet
	// From says where each setting that is no default came from, by key:
	// "/etc/ingero/ingero.yaml:3", "INGERO_DB", "--db".
	From map[string]string
	// Unread is a file of settings in the current folder that was not read, since root would
	// do what others wrote there; "" where there is none.
	Unread string

	file string   // --config
	dbs  []string // where a database is looked for when none is named
}

// Serve is where and for whom the dashboard and the MCP server answer.
type Serve struct {
	Addr       string
	Cert, Key  string // paths; empty: a certificate that is signed by itself
	NoTLS      bool
	AllowHosts []string
	MCP        string // where assistants are answered over HTTP; empty: on standard input and output
	TestReport string // path of what make test-gpu reports
}

// Fleet is which machines are asked.
type Fleet struct {
	Nodes []string // empty: none, but a database here
	CA    string   // path; empty: the machine's certificates
	Pins  []string // fingerprints of keys
	// Timeout is how long one of them is waited for; clocks may be off by Skew.
	Timeout, Skew time.Duration
}

// Causes are which causes of lost time are shown. All are looked for and recorded.
type Causes struct {
	MinSeverity string   // "LOW", "MEDIUM" or "HIGH", in capitals or not
	RulesOff    []string // by name
}

// Trace is what the trace and run commands do.
type Trace struct {
	PIDs         []uint32
	User         string // a name, a number, "all", or empty: the caller
	Place        Place  // where they must be
	Cmdline      string // "off", "safe" or "full"
	Kube         Kube
	Duration     time.Duration // 0: until it is ended
	JSON         bool
	Record       bool
	RecordAll    bool
	MaxDB        int64         // bytes; 0: no bound
	MaxAge       time.Duration // 0: no bound
	Verbose      bool
	NoFollow     bool
	CudaLibs     []string // paths; of a library that has none here, all are found by name
	MaxOverhead  float64  // share of the time of the traced processes; 0: no bound
	Stack        string   // "slow" or "true", "all", "false"
	PyProbe      bool
	PyWalker     string // "auto", "ebpf", "userspace"
	SamplingRate int    // 0 adaptive, 1 all, N: one in N
	RingBytes    int64  // a power of two, or 0: the default
	NoIO         bool
	NoTCP        bool
	NoNet        bool
	Pages        bool
	Deadband     int           // percent; 0: none
	Heartbeat    time.Duration // 0: none
	Link         string        // "auto", "session", "multi" or "perf"
	Prometheus   string        // address to serve metrics on; empty: none
	OTLP         OTLP
	ClickHouse   string // URLs with commas between; empty: none
	Notify       Notify
}

// Notify says which webhook is told of causes; none, if there is no URL.
type Notify struct {
	URL        string
	SecretFile string // of what messages are signed with; empty: they are not
}

// OTLP says which OpenTelemetry receiver is told; none, if there is no endpoint.
type OTLP struct {
	Endpoint    string // host:port, a URL, or "env"
	Traces      string // "all", "notable" or "off"
	Protocol    string // "auto", "http/protobuf", "http/json" or "grpc"
	HeadersFile string
	CAFile      string
}

// Place says where a process must be to be traced: each may name several, with commas
// between; an empty one says nothing.
type Place struct{ Pod, Namespace, Container, Cgroup, Job string }

// Kube says who knows the Kubernetes pods of this machine; nobody, if neither URL is
// there.
type Kube struct {
	Kubelet   string // URL
	API       string // URL
	TokenFile string
	CAFile    string // empty: the machine's certificates
	Insecure  bool
}

// Inputs is all that Load depends on, but for the content and owners of files.
type Inputs struct {
	Getenv     func(string) string // nil: no environment. An empty variable is none
	Flags      map[string]string   // by name, those that were given; see Flags
	UID        int                 // that this process runs as
	Caller     int                 // on whose behalf: the person behind sudo, else UID
	Home       string              // the caller's; empty: none
	Cwd        string
	Hostname   string
	Container  bool   // this process lives in one
	SystemFile string // empty: /etc/ingero/ingero.yaml
}

const (
	systemFile = "/etc/ingero/ingero.yaml"
	localFile  = "ingero.yaml"
)

// Error is a setting that cannot be used.
type Error struct {
	At   string // where it was given: "ingero.yaml:3", "INGERO_DB", "--db", or a file
	What string
	Do   string // may be empty
	Err  error  // may be nil
}

// Error returns where and what.
func (e *Error) Error() string { return e.At + ": " + e.What }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// assignment is one setting in one layer.
type assignment struct {
	to    *Setting
	value string
	at    string
	base  string // folder that a relative path starts from
}

// Load puts the layers on top of each other. Its errors are of type *Error.
func Load(in Inputs) (*Config, error) {
	in.fill()
	c, err := in.defaults()
	if err != nil {
		return nil, err
	}
	environment, flags := in.environment(), in.flags()
	// Which file --config names must be known before it is read.
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

// Databases are where a reader looks for a database, in this order: DB alone when
// it was named, else each place where this machine may keep one.
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

// put sets what is assigned.
func (a *assignment) put(c *Config, in Inputs) *Error {
	err := a.to.set(c, a.value, in, a.base)
	if err == nil {
		return nil
	}
	return &Error{At: a.at, What: fmt.Sprintf("%s cannot be %q: %v", a.to.Key, a.value, err), Do: a.to.Help, Err: err}
}

// exclude takes back the settings of lower layers that a layer's own rule out.
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

// complete fills what depends on the machine.
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
	c.DB = c.dbs[0]
	if c.Node == "" {
		c.Node = in.Hostname
	}
}

// file is one file of settings.
type file struct {
	name   string
	absent bool // it need not be there
}

// places are the files that are read, each of which outranks those before it.
func (in Inputs) places(named string) []file {
	all := []file{{in.SystemFile, true}}
	if in.UID != 0 && in.Cwd != "" {
		all = append(all, file{filepath.Join(in.Cwd, localFile), true})
	}
	if named != "" {
		all = append(all, file{named, false})
	}
	return all
}

// unread returns the file in the current folder if it is there and is none of the places.
func (in Inputs) unread(named string) string {
	local := filepath.Join(in.Cwd, localFile)
	is := func(f file) bool { return sameFile(f.name, local) }
	if _, err := os.Lstat(local); err != nil || in.Cwd == "" || slices.ContainsFunc(in.places(named), is) {
		return ""
	}
	return local
}

// sameFile tells whether two names are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// files reads the files that exist, and the one that must.
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
