package session

import (
	"encoding/binary"
	"fmt"
	"time"

	"ingero/internal/decode"
	"ingero/internal/probes"
	"ingero/internal/tape"
	"ingero/internal/tick"
	"ingero/pkg/events"
)

// Player is its Live's kernel, too. Methods that change the real kernel do nothing: the tape has
// their results.

// Rows implements kernel.
func (p *Player) Rows() []events.Row { return p.rows }

// SetSlow implements kernel.
func (*Player) SetSlow(int, time.Duration) error { return nil }

// Forget implements kernel.
func (*Player) Forget(...uint32) error { return nil }

// ForgetPages implements kernel.
func (*Player) ForgetPages(uint32) error { return nil }

// DrainLives implements kernel: the poll delivers the tape's events.
func (*Player) DrainLives(func([]byte)) int { return 0 }

// Drain implements kernel.
func (p *Player) Drain(limit int, take func(record []byte)) (n int) {
	for ; n < limit; n++ {
		b, ok := p.pop(tape.Record)
		if !ok {
			break
		}
		take(b)
	}
	return n
}

// Waiting implements kernel.
func (p *Player) Waiting() (read, made uint64) {
	b, ok := p.pop(tape.Waiting)
	if !ok || len(b) != 16 {
		return 0, 0
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
}

// splitHead splits a payload at n bytes.
func splitHead(k tape.Kind, b []byte, n int) (head, rest []byte, err error) {
	if len(b) < n {
		return nil, nil, fmt.Errorf("%w: %v of %d bytes", tape.ErrCorrupt, k, len(b))
	}
	return b[:n], b[n:], nil
}

// each calls take for all frames of a kind, split after n bytes.
func (p *Player) each(k tape.Kind, n int, take func(head, rest []byte) error) error {
	for b, ok := p.pop(k); ok; b, ok = p.pop(k) {
		head, rest, err := splitHead(k, b, n)
		if err == nil {
			err = take(head, rest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Counts implements kernel.
func (p *Player) Counts(take func(*probes.CountsRow)) error {
	return p.each(tape.Count, 8, func(head, rest []byte) error {
		c := probes.CountsRow{PID: binary.LittleEndian.Uint32(head), Row: int(binary.LittleEndian.Uint32(head[4:]))}
		if c.Row >= len(p.rows) {
			return fmt.Errorf("%w: counts of row %d of %d", tape.ErrCorrupt, c.Row, len(p.rows))
		}
		err := decode.Fill(&c.IngeroCounts, rest)
		if err == nil {
			take(&c)
		}
		return err
	})
}

// Threads implements kernel.
func (p *Player) Threads(take func(tid uint32, s *probes.ThreadState, now uint64)) error {
	return p.each(tape.Thread, threadHead, func(head, rest []byte) error {
		var s probes.ThreadState
		err := decode.Fill(&s, rest)
		if err == nil {
			take(binary.LittleEndian.Uint32(head), &s, binary.LittleEndian.Uint64(head[4:]))
		}
		return err
	})
}

// Drops implements kernel.
func (p *Player) Drops() (drops []tick.Drop, err error) {
	p.answer(tape.Drops, &drops, nil)
	return drops, nil
}

// HostSums implements kernel.
func (p *Player) HostSums(take func(k probes.HostKey, s *probes.HostSum)) error {
	var k probes.HostKey
	return p.each(tape.HostSum, len(decode.Bytes(&k)), func(head, rest []byte) error {
		var s probes.HostSum
		if err := decode.Fill(&k, head); err != nil {
			return err
		}
		err := decode.Fill(&s, rest)
		if err == nil {
			take(k, &s)
		}
		return err
	})
}

// ForgetHost implements kernel.
func (p *Player) ForgetHost(k probes.HostKey) (s probes.HostSum, err error) {
	b, ok := p.pop(tape.HostLast)
	if !ok {
		return s, nil
	}
	_, rest, err := splitHead(tape.HostLast, b, len(decode.Bytes(&k)))
	if err == nil {
		err = decode.Fill(&s, rest)
	}
	return s, err
}

// HostReports implements kernel.
func (p *Player) HostReports() (reports []tick.Report) {
	p.answer(tape.HostReports, &reports, nil)
	return reports
}

// Pages implements kernel.
func (p *Player) Pages(take func(pid, order uint32, n uint64)) error {
	var all []pageCount
	p.answer(tape.Pages, &all, nil)
	for _, c := range all {
		take(c.PID, c.Order, c.N)
	}
	return nil
}
