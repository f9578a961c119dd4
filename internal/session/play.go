package session

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"ingero/internal/decode"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Player is a source that plays a raw tape: [Live] runs on the tape's answers of the kernel and
// user space. The session runs by the tape's clock and does not wait. It is for one goroutine.
type Player struct {
	live    *Live
	tape    *tape.Reader
	upgrade func(k tape.Kind, b []byte) ([]byte, error) // nil: current layout
	rows    []events.Row
	next    section
	now     int64 // Unix ns: time of the current section
	frames  map[tape.Kind][][]byte
	stopped bool
	idle    int // consecutive polls without input
	err     error
}

// section is the next section to play.
type section struct {
	kind tape.Kind // End: none
	at   int64
}

// upgrades maps numbers of older layouts of bpf/abi.h to conversions of payloads to the current
// one.
var upgrades = map[int]func(k tape.Kind, b []byte) ([]byte, error){
	// Layout 1 has no launch count at the end of threads, nor in the field other of calls.
	1: func(k tape.Kind, b []byte) ([]byte, error) {
		if k == tape.Thread {
			b = append(slices.Clip(b), make([]byte, 8)...)
		}
		return from2(k, b)
	},
	2: from2,
	// In layout 3 no stack says that its thread took it of itself: those have no native frames.
	3: from4,
	4: from4,
	// Up to layout 5, a wait that a program's thread ended lacks the waiting thread's own stack: 0.
	5: func(_ tape.Kind, b []byte) ([]byte, error) { return b, nil },
}

// from4 converts from layout 4, in which host keys are shorter, and all peers are TCP peers.
func from4(k tape.Kind, b []byte) ([]byte, error) {
	const key, added = 24, 16
	if (k != tape.HostSum && k != tape.HostLast) || len(b) < key {
		return b, nil
	}
	return slices.Concat(b[:key], make([]byte, added), b[key:]), nil
}

// from2 converts from layout 2.
func from2(k tape.Kind, b []byte) ([]byte, error) {
	if k != tape.Thread || len(b) < threadHead {
		return from4(k, b)
	}
	state, err := decode.ThreadFrom2(b[threadHead:])
	return slices.Concat(b[:threadHead], state), err
}

const threadHead = 12 // bytes of a thread's frame before its state: TID and time

// maxIdlePolls bounds polls without input: beyond, the session is out of step with its tape.
const maxIdlePolls = 1000

// Play opens a raw tape. [Run] closes the Player; r remains the caller's.
func Play(r io.Reader) (*Player, error) {
	in, err := tape.Open(r)
	if err != nil {
		return nil, err
	}
	p := &Player{tape: in}
	if err := p.open(&in.Header); err != nil {
		in.Close()
		return nil, err
	}
	return p, nil
}

func (p *Player) open(h *tape.Header) error {
	if h.ABI != decode.ABI {
		if p.upgrade = upgrades[h.ABI]; p.upgrade == nil {
			return fmt.Errorf("%w: its records have layout %d, but this version reads layout %d; record it again", tape.ErrVersion, h.ABI, decode.ABI)
		}
	} else if !maps.Equal(h.Shapes, decode.Shapes()) {
		return fmt.Errorf("%w: the sizes of its records do not match layout %d", tape.ErrCorrupt, h.ABI)
	}
	for _, op := range h.Rows {
		row := events.Op(op).Row()
		if row == nil {
			return fmt.Errorf("%w: unknown operation %d", tape.ErrVersion, op)
		}
		p.rows = append(p.rows, *row)
	}
	o := LiveOptions{Log: slog.New(slog.DiscardHandler), Notify: func(Notice) {}}
	p.live = newLive(&o, nil, p, p, decode.Clock{Offset: h.Clock})
	p.load() // answers from before the session began
	if p.err == nil && p.next.kind != tape.Began {
		p.fail(fmt.Errorf("%w: it has no start section", tape.ErrCorrupt))
	}
	if p.err != nil {
		return p.err
	}
	p.live.gpus.find()
	p.live.host.learn()
	p.now = p.next.at
	p.load()
	return p.err
}

// load reads the frames up to the next section.
func (p *Player) load() {
	p.frames = map[tape.Kind][][]byte{}
	p.next = section{}
	for {
		k, b, err := p.tape.Next()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			p.fail(err)
			return
		}
		if p.upgrade != nil {
			if b, err = p.upgrade(k, b); err != nil {
				p.fail(err)
				return
			}
		}
		if k.Section() {
			if len(b) != 8 {
				p.fail(fmt.Errorf("%w: section %v without a time", tape.ErrCorrupt, k))
				return
			}
			p.next = section{k, int64(binary.LittleEndian.Uint64(b))}
			return
		}
		p.frames[k] = append(p.frames[k], append([]byte(nil), b...))
	}
}

func (p *Player) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// Poll implements [Source].
func (p *Player) Poll(b *tick.Batch) (more bool, err error) {
	switch {
	case p.err != nil:
		return false, p.err
	case p.next.kind == tape.End, p.next.kind == tape.Stop && !p.stopped:
		return false, io.EOF
	case p.next.kind != tape.Poll:
		if p.idle++; p.idle > maxIdlePolls {
			return false, fmt.Errorf("the tape has a %v section that the session did not reach", p.next.kind)
		}
		return false, nil
	}
	p.idle = 0
	more, err = p.live.Poll(b)
	return more, errors.Join(err, p.err)
}

// Totals implements [Source].
func (p *Player) Totals(t *tick.Tick) error {
	return errors.Join(p.live.Totals(t), p.err)
}

// Stop implements [Source]: it skips the rest of the tape up to its own stop.
func (p *Player) Stop() error {
	for !p.stopped && p.err == nil && p.next.kind != tape.Stop && p.next.kind != tape.End {
		p.load()
	}
	if !p.stopped && p.next.kind == tape.Stop {
		p.now = p.next.at
		p.load()
	}
	p.stopped, p.live.stopped = true, true
	return nil
}

// Close implements [Source].
func (p *Player) Close() error {
	p.tape.Close()
	return nil
}

// Capabilities implements [Source]. The tape has stacks with names.
func (p *Player) Capabilities() Capabilities {
	return Capabilities{AgentPID: p.tape.Header.PID, StackPolicy: p.tape.Header.Stacks, Faults: p.live.gpus.takeFaults, deck: p}
}

func (*Player) plays() bool  { return true }
func (*Player) close() error { return nil }

func (p *Player) begin(k tape.Kind, _ time.Time) error {
	if p.err == nil && p.next.kind != k {
		p.fail(fmt.Errorf("the session reached a %v section, but the tape has a %v section", k, p.next.kind))
	}
	if p.err != nil {
		return p.err
	}
	p.now = p.next.at
	p.load()
	return p.err
}

// pop returns the next frame of a kind.
func (p *Player) pop(k tape.Kind) ([]byte, bool) {
	list := p.frames[k]
	if len(list) == 0 {
		return nil, false
	}
	p.frames[k] = list[1:]
	return list[0], true
}

func (p *Player) answer(k tape.Kind, v any, _ func()) bool {
	b, ok := p.pop(k)
	if !ok {
		return false
	}
	if err := json.Unmarshal(b, v); err != nil {
		p.fail(fmt.Errorf("%w: %v: %w", tape.ErrCorrupt, k, err))
	}
	return true
}

func (*Player) copied(record []byte) []byte { return record }

func (p *Player) lives(_ [][]byte, take func(record []byte)) {
	for b, ok := p.pop(tape.Life); ok; b, ok = p.pop(tape.Life) {
		take(b)
	}
}

func (p *Player) clock(Clock) Clock { return playedClock{p} }

// playedClock is the clock of a tape: a tick is due when it is the next section.
type playedClock struct{ p *Player }

// atOnce is a closed channel: waits on it end at once.
var atOnce = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

func (c playedClock) Now() time.Time {
	if c.p.next.kind == tape.Tick {
		return time.Unix(0, c.p.next.at)
	}
	return time.Unix(0, c.p.now)
}

func (playedClock) After(time.Duration) <-chan time.Time { return atOnce }
