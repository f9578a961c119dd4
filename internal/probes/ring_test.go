package probes

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// paper is a ring in plain memory; the test is the producer.
type paper struct {
	*Ring
	size uint64
}

func newPaper(size uint64) *paper {
	data := make([]byte, 2*size)
	return &paper{&Ring{consumer: make([]byte, 8), producer: make([]byte, 8), data: data, mask: size - 1}, size}
}

func (p *paper) produced() uint64 { return binary.LittleEndian.Uint64(p.producer) }
func (p *paper) consumed() uint64 { return binary.LittleEndian.Uint64(p.consumer) }

// put writes a record as the kernel does; the data is there twice, one copy after the other.
func (p *paper) put(payload string, bits uint32) {
	pos := p.produced()
	set := func(i uint64, b byte) {
		p.data[i&p.mask] = b
		p.data[i&p.mask+p.size] = b
	}
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(payload))|bits)
	for i, b := range append(append(head, 0, 0, 0, 0), payload...) {
		set(pos+uint64(i), b)
	}
	binary.LittleEndian.PutUint64(p.producer, pos+uint64(8+len(payload)+7)&^7)
}

func (p *paper) drain(limit int) (got []string) {
	p.Drain(limit, func(b []byte) { got = append(got, string(b)) })
	return got
}

func TestRingDrain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fill  func(*paper)
		limit int
		want  []string
		left  bool // a record waits for the next round
	}{
		{name: "nothing", fill: func(*paper) {}, limit: 9},
		{name: "in order", fill: func(p *paper) { p.put("a", 0); p.put("bbbbbbbbb", 0) }, limit: 9, want: []string{"a", "bbbbbbbbb"}},
		{name: "discarded are passed over", fill: func(p *paper) { p.put("a", ringDiscard); p.put("b", 0) }, limit: 9, want: []string{"b"}},
		{name: "a busy one holds back what follows", fill: func(p *paper) { p.put("a", 0); p.put("b", ringBusy); p.put("c", 0) },
			limit: 9, want: []string{"a"}, left: true},
		{name: "limit", fill: func(p *paper) { p.put("a", 0); p.put("b", 0) }, limit: 1, want: []string{"a"}, left: true},
		{name: "nonsense length", fill: func(p *paper) { p.put("a", 0); p.put("b", 1<<20) }, limit: 9, want: []string{"a"}, left: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPaper(256)
			tt.fill(p)
			if got := p.drain(tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("records %q, want %q", got, tt.want)
			}
			if left := p.consumed() != p.produced(); left != tt.left {
				t.Errorf("left something = %v, want %v", left, tt.left)
			}
			if got := p.Used(); got != p.produced()-p.consumed() {
				t.Errorf("Used = %d, want %d", got, p.produced()-p.consumed())
			}
		})
	}
}

// Records wrap around the end of the ring many times and arrive complete.
func TestRingWraps(t *testing.T) {
	p := newPaper(256)
	for i := range 1000 {
		want := fmt.Sprintf("record %d %0*d", i, i%90, i)
		p.put(want, 0)
		if got := p.drain(9); len(got) != 1 || got[0] != want {
			t.Fatalf("records %q, want %q", got, want)
		}
	}
}

func TestNewRingRefusesSizes(t *testing.T) {
	for _, size := range []int{0, 100, 4096*3 + 1, 12288} {
		if r, err := newRing(-1, size); err == nil {
			t.Errorf("a ring of %d bytes: %v", size, r)
		}
	}
}
