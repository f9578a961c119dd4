package screen

import (
	"errors"
	"os"
)

// Patient is a terminal that is written to by whoever cannot wait for it. What it has not
// taken in a moment stays for the next time, up to a bound, beyond which what is written is
// dropped. It is for one goroutine at a time.
type Patient struct {
	out    *os.File
	opened bool
	tty    *os.File // nil: it could not be opened anew, and is waited for
	left   []byte
}

// mostLeft bounds what a terminal has not taken yet, in bytes.
const mostLeft = 64 << 10

// NewPatient writes to the terminal out.
func NewPatient(out *os.File) *Patient { return &Patient{out: out} }

// Write implements [io.Writer]. It tells of no more than that the terminal has gone.
func (p *Patient) Write(b []byte) (int, error) {
	if !p.opened {
		p.opened = true
		p.tty, _ = reopen(p.out) // it may be somebody else's
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

// Close waits a moment for the terminal to take the rest. It does not close out.
func (p *Patient) Close() error {
	if p.tty == nil {
		return nil
	}
	_, err := write(p.tty, p.left, farewell)
	tty := p.tty
	p.tty, p.left = nil, nil
	return errors.Join(err, tty.Close())
}
