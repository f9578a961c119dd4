package session

import (
	"ingero/internal/decode"
	"ingero/internal/label"
	"ingero/internal/tape"
	"ingero/internal/tick"
)

// labels receives what programs say about themselves. Its methods are for the polling goroutine.
type labels struct {
	raw    tapeIO
	report *reporter
	socket *label.Socket // nil: none
}

// start opens the socket. A trace without it is reported, and goes on.
func (x *labels) start(o label.Options, clock decode.Clock) {
	if o.Path == "" {
		return
	}
	o.Log = x.report.log
	o.Wall = func(mono int64) int64 { return clock.Wall(uint64(mono)) }
	var err error
	if x.socket, err = label.Listen(o); err != nil {
		x.socket = nil
		x.report.add(tick.Report{Kind: "labels-off", Object: o.Path, Why: err.Error()})
	}
}

// poll appends the changes that have arrived to a batch.
func (x *labels) poll(b *tick.Batch) {
	var news []tick.Label
	if !playing(x.raw) {
		if x.socket != nil {
			news = x.socket.Drain()
		}
		if len(news) == 0 { // a tape has a frame of those only
			return
		}
	}
	drained := news
	fill(x.raw, tape.Labels, &news, func() { news = drained })
	b.Labels = append(b.Labels, news...)
}

func (x *labels) drops() []tick.Drop {
	if x.socket == nil {
		return nil
	}
	return x.socket.Drops()
}

// close closes the socket. What has arrived can still be polled.
func (x *labels) close() error {
	if x.socket == nil {
		return nil
	}
	return x.socket.Close()
}
