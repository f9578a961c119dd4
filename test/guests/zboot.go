package guests

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Offsets in the header of a self-extracting image, which needs firmware that a guest lacks
// (drivers/firmware/efi/libstub/zboot-header.S).
const (
	zbootMagic   = 4 // "zimg"
	zbootOffset  = 8
	zbootSize    = 12
	zbootPacking = 24 // "gzip"
)

// maxImage bounds the size of an unpacked image.
const maxImage = 256 << 20

// plain unpacks a self-extracting image, and returns any other unchanged.
func plain(image []byte) ([]byte, error) {
	if len(image) < 64 || string(image[zbootMagic:zbootMagic+4]) != "zimg" {
		return image, nil
	}
	if packing, _, _ := bytes.Cut(image[zbootPacking:zbootPacking+8], []byte{0}); string(packing) != "gzip" {
		return nil, fmt.Errorf("an image that is packed with %q", packing)
	}
	at, size := uint64(binary.LittleEndian.Uint32(image[zbootOffset:])), uint64(binary.LittleEndian.Uint32(image[zbootSize:]))
	if at+size > uint64(len(image)) {
		return nil, errors.New("an image that ends early")
	}
	r, err := gzip.NewReader(bytes.NewReader(image[at : at+size]))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, maxImage))
}
