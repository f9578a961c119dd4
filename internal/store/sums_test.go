package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// appendHeadSum corrects the checksum of a frame's head.
func appendHeadSum(frame []byte) []byte {
	binary.LittleEndian.PutUint32(frame[12:], crc32.Checksum(frame[:12], castagnoli))
	return frame
}

// fixSums corrects all checksums of a log, as far as its lengths lead.
func fixSums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := len(magic); at+headSize <= len(b); {
		n := int(binary.LittleEndian.Uint32(b[at:]))
		end := at + headSize + n
		if n > maxBody || end > len(b) {
			break
		}
		binary.LittleEndian.PutUint32(b[at+8:], crc32.Checksum(b[at+headSize:end], castagnoli))
		appendHeadSum(b[at:end])
		at = end
	}
	if at := len(b) - tailSize; at >= 0 && string(b[at+12:]) == tailMagic {
		binary.LittleEndian.PutUint32(b[at+8:], crc32.Checksum(b[at:at+8], castagnoli))
	}
	return b
}
