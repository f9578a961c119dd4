package segment

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"ingero/internal/store/log"
	"ingero/internal/store/storetest"
	"ingero/internal/tick"
)

// Decompressing a hostile file uses bounded memory.
func TestHostileSegmentsTakeLittleMemory(t *testing.T) {
	const limit = 64 << 20
	body := func(n uint64, fill []byte, times int) []byte {
		return append(appendUvarint(nil, n), bytes.Repeat(fill, times)...)
	}
	session := log.Append([]byte(log.Magic), frameSession, 1, []byte("{}"))
	drops := appendTick(nil, &tick.Tick{})
	drops = append(drops[:len(drops)-1], body(2<<20, []byte{0, 1}, 2<<20)...)
	for name, b := range map[string][]byte{
		"lives":  log.Append(bytes.Clone(session), frameLives, 1, body(2<<20, []byte{0, 0, 0, 0, 0, 0}, 2<<20)),
		"block":  log.Append(bytes.Clone(session), frameBlock, 1, body(7<<20, []byte{1, 1}, 7<<20)),
		"index":  sealedWith(session, body(1, append(appendUvarint(nil, 2<<20), bytes.Repeat([]byte{16, 1, 1, 1, 1}, 2<<20)...), 1)),
		"drops":  log.Append(bytes.Clone(session), frameTick, 2, packed(t, drops)),
		"ops":    log.Append(bytes.Clone(session), frameTick, 2, packed(t, manyOps(1<<16))),
		"calls":  log.Append(bytes.Clone(session), frameCalls, 2, manyCalls(t, frameCallsCap)),
		"report": log.Append(bytes.Clone(session), frameReport, 1, []byte(`{"kind":"`+strings.Repeat("x", 15<<20)+`"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			l := openLog(t, b)
			var e Entry
			var err error
			for i := 0; !errors.Is(err, io.EOF) && i < 100; i++ {
				err = l.Next(&e)
			}
			runtime.ReadMemStats(&after)
			if made := after.TotalAlloc - before.TotalAlloc; made > limit {
				t.Errorf("%d MB are made room for", made>>20)
			}
		})
	}
}

func packed(t *testing.T, raw []byte) []byte {
	t.Helper()
	p, err := newPacker()
	if err != nil {
		t.Fatal(err)
	}
	return p.column(nil, raw)
}

func sealedWith(session, index []byte) []byte {
	at := int64(len(session))
	return appendTail(log.Append(bytes.Clone(session), frameIndex, 1, index), at)
}

func manyOps(n int) []byte {
	b := appendUvarint(appendTick(nil, &tick.Tick{}), uint64(n))
	for i := range n {
		b = appendOp(b, &tick.Op{PID: uint32(i), Op: 1}, nil)
	}
	return b
}

func manyCalls(t *testing.T, n int) []byte {
	t.Helper()
	e, _ := codecs(t)
	g := storetest.NewGenerator(1)
	for range n {
		c := g.Odd()
		e.add(&c)
	}
	return e.body(nil)
}
