package wire

import (
	"time"

	"ingero/internal/tick"
)

// Server sums up the HTTP requests to a process on one port. Requests with a body (POST) are
// measured; others, such as health checks, are only counted. The quantiles are of answered requests
// with a status below 400; Unread is of all.
type Server struct {
	PID        uint32       `json:"pid"`
	Comm       string       `json:"comm,omitempty"`
	Engine     *tick.Engine `json:"engine,omitempty"` // if it belongs to an inference server
	Port       uint16       `json:"port"`
	Requests   uint64       `json:"requests"`       // with a body
	Others     uint64       `json:"other_requests"` // without one
	Failed     uint64       `json:"failed"`         // of Requests: answered with status 500 or more
	Refused    uint64       `json:"refused"`        // of Requests: answered with status 400 to 499
	Unanswered uint64       `json:"unanswered"`     // of Requests: no response, at the connection's end or that of the window
	SlowReader uint64       `json:"slow_readers"`   // of Requests: the client did not read as fast as the server sent
	// FirstByte is the time from the arrival of a request to the first byte of the response's body,
	// Unread the part of it until the server read the request. Between is the mean time between the
	// events of a response, and Whole the time from the arrival to the last byte.
	FirstByte Durations `json:"first_byte"`
	Unread    Durations `json:"unread"`
	Between   Durations `json:"between_events"`
	Whole     Durations `json:"whole"`
	Slowest   []Request `json:"slowest"` // by the time to the first byte
	// Waits is what the requests waited for until the first byte, or until the end of what an
	// objective limits; absent: no request was answered.
	Waits *RequestWaits `json:"waits,omitempty"`
}

// Requests are the requests to servers in a window, and what the servers computed.
type Requests struct {
	Scope
	Servers   []Server          `json:"servers"`   // by process and port
	Engines   []EngineSteps     `json:"engines"`   // steps of the servers' engines, summed up over whole 10 s
	Inference []InferenceServer `json:"inference"` // servers' own metrics
	Notes     []string          `json:"notes"`
}

// RequestWaits divides the time of requests by what their server and its engine did. Parts add up to
// TotalNS; Engine divides those parts that are steps of the engine.
type RequestWaits struct {
	Objective string     `json:"objective,omitempty"` // the requests are those that miss it, as in "ttft=200ms"; absent: all
	Of        string     `json:"of"`                  // the time that is divided: "ttft", "tpot" (all of the time after the first byte) or "total"
	Requests  uint64     `json:"requests"`
	TotalNS   int64      `json:"total_ns"`
	Parts     []WaitPart `json:"parts"`
	Engine    []WaitPart `json:"engine"`
}

// WaitPart is a part of the time of requests.
type WaitPart struct {
	Name string `json:"name"`
	NS   int64  `json:"ns"`
}

// Durations are quantiles, in nanoseconds; absent: none.
type Durations struct {
	Count uint64 `json:"count"`
	P50NS *int64 `json:"p50_ns,omitempty"`
	P95NS *int64 `json:"p95_ns,omitempty"`
	P99NS *int64 `json:"p99_ns,omitempty"`
	MaxNS *int64 `json:"max_ns,omitempty"`
}

// Request is an HTTP request to a server on this machine, and its response. Times are nanoseconds
// since Arrived; absent: it has not happened, or is not known.
type Request struct {
	PID     uint32    `json:"pid"`
	Port    uint16    `json:"port"`
	Peer    string    `json:"peer"` // address and port of the client
	Arrived time.Time `json:"arrived"`
	ReadNS  *int64    `json:"read_ns,omitempty"`       // the server read the first bytes
	WholeNS *int64    `json:"read_whole_ns,omitempty"` // the server read the last bytes
	HeadNS  *int64    `json:"head_ns,omitempty"`       // the first byte of the response
	FirstNS *int64    `json:"first_ns,omitempty"`      // the first byte of its body
	LastNS  *int64    `json:"last_ns,omitempty"`       // its last byte
	GapNS   int64     `json:"longest_gap_ns"`          // between two sends of the body
	Events  uint32    `json:"events"`                  // sends of the body, usually one for each token of a stream
	// Received and Sent are bytes. SendsRefused counts sends that failed because the socket's buffer
	// was full, and UnreadBytes is the most bytes that the client had not acknowledged.
	Received     uint64 `json:"received_bytes"`
	Sent         uint64 `json:"sent_bytes"`
	SendsRefused uint32 `json:"sends_refused"`
	UnreadBytes  uint32 `json:"unread_bytes"`
	RoundTripNS  int64  `json:"round_trip_ns,omitempty"`
	Status       uint16 `json:"status,omitempty"` // of HTTP
	Post         bool   `json:"post"`
	// ToFirst divides the time from WholeNS to FirstNS, After that from FirstNS to LastNS; absent:
	// not known.
	ToFirst *RequestTime `json:"to_first,omitempty"`
	After   *RequestTime `json:"after,omitempty"`
	End     string       `json:"end"` // "last chunk", "next request", "closed", or "open": not known
}

// RequestTime divides an interval of a request by what the server's engine did. The first six parts
// add up to the interval, the last five to prompts, own_prompt, tokens and steps.
type RequestTime struct {
	ServerNS   int64 `json:"server_ns"`     // the engine waited for work
	PromptsNS  int64 `json:"prompts_ns"`    // it computed prompts of other requests: steps without a graph
	OwnNS      int64 `json:"own_prompt_ns"` // it computed the request's own prompt
	TokensNS   int64 `json:"tokens_ns"`     // it computed tokens: steps with a graph
	StepsNS    int64 `json:"steps_ns"`      // it computed prompts or tokens: it launches no graph, which would tell them apart
	DeliverNS  int64 `json:"deliver_ns"`    // from the end of the last of these steps to the byte
	GPUNS      int64 `json:"gpu_ns"`        // waiting for the GPU
	CPUNS      int64 `json:"cpu_ns"`
	RunnableNS int64 `json:"runnable_ns"` // waiting for a CPU
	BlockedNS  int64 `json:"blocked_ns"`
	UnknownNS  int64 `json:"unknown_ns"`
}
