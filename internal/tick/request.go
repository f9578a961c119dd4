package tick

import (
	"net/netip"
	"time"
)

// Request is an HTTP request to a traced server on this machine, and its response, as the server's
// socket saw them. The fields from Read to Last are times since Arrived; negative: not yet.
type Request struct {
	PID, TID uint32 // of the process, and of the thread that read it
	Port     uint16 // of the server
	Peer     netip.AddrPort
	Arrived  int64         // Unix ns: its first bytes arrived on this machine
	Read     time.Duration // the server read its first bytes
	Whole    time.Duration // the server read its last bytes
	Head     time.Duration // the first byte of the response was sent
	First    time.Duration // the first byte of the body was sent
	Last     time.Duration // the last byte of the response was sent, as far as is known
	Gap      time.Duration // the longest time between two sends of the body
	// Events are the sends of the body, without the end of a stream: usually one for each token.
	Events         uint32
	Received, Sent uint64 // bytes
	// Refused counts sends that failed because the socket's buffer was full, and Unread is the most
	// bytes that the client had not acknowledged at a send: the client reads slowly.
	Refused, Unread uint32
	RoundTrip       time.Duration // of the connection, after the last send; 0: unknown
	Status          uint16        // of HTTP; 0: none yet
	Post            bool          // its method is POST
	End             ResponseEnd
	// ToFirst divides the time from Whole to First by what the server's engine did, After the time
	// from First to Last. Split means that they are known, and so is the engine's thread.
	ToFirst, After       RequestTime
	EnginePID, EngineTID uint32
	Split                bool
	// AtOnce divides the last part of ToFirst, from the end of the request's prompt: its tokens were
	// computed before First, since the response was sent at once. It is zero for a stream.
	AtOnce RequestTime
	// TokenSteps are the engine's steps for tokens from First, or from the start of AtOnce, to Last. A
	// running request gets a token in each. A recording has neither them nor AtOnce: its replay finds
	// them again.
	TokenSteps uint32
}

// RequestTime divides an interval of a request by what the server's engine did in it. The first six
// parts add up to the interval; the last five add up to Prompts, Own, Tokens and Steps.
type RequestTime struct {
	Idle    time.Duration // the engine waited for work: the server prepared or handed over the request
	Prompts time.Duration // it computed prompts of other requests: steps without a graph
	Own     time.Duration // it computed the request's own prompt
	Tokens  time.Duration // it computed tokens: steps with a graph
	Steps   time.Duration // it computed prompts or tokens: it launches no graph, which would tell them apart
	Deliver time.Duration // from the end of the last of these steps to the interval's end

	GPU      time.Duration // of the steps: waiting for the GPU
	CPU      time.Duration // on a CPU, or waited for a scheduler's process that was
	Runnable time.Duration // waiting for a CPU
	Blocked  time.Duration // waiting for something else, but for work
	Unknown  time.Duration
}

// Add adds the parts of another interval.
func (p *RequestTime) Add(o *RequestTime) {
	p.Idle, p.Prompts, p.Own, p.Tokens, p.Deliver = p.Idle+o.Idle, p.Prompts+o.Prompts, p.Own+o.Own, p.Tokens+o.Tokens, p.Deliver+o.Deliver
	p.Steps += o.Steps
	p.GPU, p.CPU, p.Runnable, p.Blocked, p.Unknown = p.GPU+o.GPU, p.CPU+o.CPU, p.Runnable+o.Runnable, p.Blocked+o.Blocked, p.Unknown+o.Unknown
}

// RequestWaits are the times that a request waited in an interval, by [RequestWaitNames]. They add up
// to the interval.
type RequestWaits [9]time.Duration

// RequestWaitNames are the names of [RequestWaits]: until the server read the request, until it had
// read all of it, the six parts of [RequestTime], and time that is not divided.
var RequestWaitNames = [len(RequestWaits{})]string{"unread", "receiving", "server", "prompts", "tokens", "own-prompt", "steps", "delivery", "unknown"}

// Add adds the waits of another interval.
func (w *RequestWaits) Add(o RequestWaits) {
	for i, d := range o {
		w[i] += d
	}
}

// Waits returns what an answered request waited for: from its arrival to the first byte, and from
// there to the last.
func (r *Request) Waits() (toFirst, after RequestWaits) {
	first, _ := r.FirstByte()
	toFirst, after = r.waits(&r.ToFirst, first-r.Whole), r.waits(&r.After, r.Last-first)
	toFirst[0], toFirst[1] = max(r.Read, 0), max(r.Whole-r.Read, 0)
	return toFirst, after
}

func (r *Request) waits(p *RequestTime, all time.Duration) RequestWaits {
	if r.Split {
		return RequestWaits{2: p.Idle, p.Prompts, p.Tokens, p.Own, p.Steps, p.Deliver}
	}
	return RequestWaits{len(RequestWaits{}) - 1: max(all, 0)}
}

// ResponseEnd says how the end of a response is known.
type ResponseEnd uint8

// The ends.
const (
	ResponseOpen   ResponseEnd = iota // it has not ended, or nothing shows that it has
	ResponseChunk                     // its last chunk was sent
	ResponseNext                      // the client's next request followed
	ResponseClosed                    // the connection was closed
)

var endNames = [...]string{"open", "last chunk", "next request", "closed"}

// String returns "open", "last chunk", "next request" or "closed".
func (e ResponseEnd) String() string {
	if int(e) < len(endNames) {
		return endNames[e]
	}
	return ""
}

// EndTime returns the time of the last byte so far: of the response, or else of the request.
func (r *Request) EndTime() int64 { return r.Arrived + int64(max(r.Last, r.Whole, 0)) }

// FirstByte returns the time to the first byte of the body, or to that of a response without one. ok is
// false without a response. A head alone is none: servers send that of a stream before its first token.
func (r *Request) FirstByte() (d time.Duration, ok bool) {
	if r.First >= 0 {
		return r.First, true
	}
	return r.Head, r.Head >= 0 && (NoBody(r.Status) || r.End == ResponseChunk || r.End == ResponseNext)
}

// NoBody reports whether a response with a status has no body, or none that holds the answer to a request.
func NoBody(status uint16) bool { return status == 204 || status >= 300 }

// Between returns the mean time between two events. ok is false with less than two.
func (r *Request) Between() (d time.Duration, ok bool) {
	if r.Events < 2 || r.Last <= r.First {
		return 0, false
	}
	return (r.Last - r.First) / time.Duration(r.Events-1), true
}
