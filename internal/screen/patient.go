package screen

import (
	"errors"
	"os"
)

// Patient writes to a terminal without blocking. What the terminal does not accept in a moment is
// kept for the next write, up to a bound; beyond that output is dropped. It is not safe for
// concurrent use.
type Patient struct {
	out    *os.File
	opened bool
	tty    *os.File // nil: could not be reopened, so writes block
	left   []byte
}

// mostLeft bounds the kept output, in bytes.
const mostLeft = 64 << 10

// NewPatient returns a Patient for the terminal out.
func NewPatient(out *os.File) *Patient { return &Patient{out: out} }

// Write implements [io.Writer]. Its only error is that the terminal has gone.
func (p *Patient) Write(b []byte) (int, error) {
	if !p.opened {
		p.opened = true
		p.tty, _ = reopen(p.out) // it may be another user's
	}
	if p.tty == nil {
		return p.out.Write(b)
	}
	if len(p.left)+len(b) <= mostLeft {
		p.left = append(p.left, b...)
	}
	var err error
	p.left, err = write(p.tty, p.left, patience)
	return len(b), err
}

// Close waits a moment for the terminal to accept the rest. It does not close out.
func (p *Patient) Close() error {
	if p.tty == nil {
		return nil
	}
	_, err := write(p.tty, p.left, farewell)
	tty := p.tty
	p.tty, p.left = nil, nil
	return errors.Join(err, tty.Close())
}
