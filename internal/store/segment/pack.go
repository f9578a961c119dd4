package segment

import (
	"fmt"
	"ingero/internal/store/log"

	"github.com/klauspost/compress/zstd"
)

// Codecs of a column.
const (
	codecRaw  = 0
	codecZstd = 1
)

// packer appends columns to a frame's body. It reuses its memory.
type packer struct {
	zstd   *zstd.Encoder
	packed []byte
}

func newPacker() (packer, error) {
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithWindowSize(1<<20))
	return packer{zstd: z}, err
}

// column appends a column: codec, length, packed length, bytes.
func (p *packer) column(b, raw []byte) []byte {
	if len(raw) >= compressFrom {
		// Pack after the used part: raw may be the front of the same memory.
		from := len(p.packed)
		p.packed = p.zstd.EncodeAll(raw, p.packed)
		packed := p.packed[from:]
		p.packed = p.packed[:from]
		if len(packed) < len(raw) {
			b = appendUvarint(appendUvarint(append(b, codecZstd), uint64(len(raw))), uint64(len(packed)))
			return append(b, packed...)
		}
	}
	b = appendUvarint(append(b, codecRaw), uint64(len(raw)))
	return append(b, raw...)
}

// unpackedMax returns the most bytes that a column of n packed bytes can have: a zstd block has at
// most 128 KiB (RFC 8878, 3.1.1.2.4) and takes at least 4 bytes.
func unpackedMax(n int) uint64 { return (uint64(n)/4 + 1) << 17 }

// unpacker reads the columns of a frame's body. It reuses its memory, which holds the columns: each
// needs its own room.
type unpacker struct {
	zstd *zstd.Decoder
	room [][]byte
}

func newUnpacker(rooms int) (unpacker, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(log.MaxBody), zstd.WithDecodeAllCapLimit(true))
	return unpacker{zstd: z, room: make([][]byte, rooms)}, err
}

// column returns the next column, unpacked, of at most limit bytes.
func (u *unpacker) column(r *reader, room, limit int) (reader, error) {
	codec := r.bytes(1)
	raw := r.uint()
	if r.bad || raw > uint64(limit) {
		return reader{}, fmt.Errorf("%w: invalid length of a column", log.ErrCorrupt)
	}
	switch codec[0] {
	case codecRaw:
		b := r.bytes(int(raw))
		if r.bad {
			return reader{}, fmt.Errorf("%w: truncated column", log.ErrCorrupt)
		}
		return reader{b: b}, nil
	case codecZstd:
		packed := r.bytes(r.count())
		if raw > unpackedMax(len(packed)) {
			return reader{}, fmt.Errorf("%w: invalid length of a column", log.ErrCorrupt)
		}
		if uint64(cap(u.room[room])) < raw {
			u.room[room] = make([]byte, 0, raw)
		}
		b, err := u.zstd.DecodeAll(packed, u.room[room][:0:raw])
		if err != nil || r.bad || uint64(len(b)) != raw {
			return reader{}, fmt.Errorf("%w: column cannot be decompressed", log.ErrCorrupt)
		}
		return reader{b: b}, nil
	}
	return reader{}, fmt.Errorf("%w: unknown compression %d of a column", log.ErrVersion, codec[0])
}
