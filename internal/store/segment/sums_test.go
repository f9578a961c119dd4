package segment

import (
	"bytes"
	"encoding/binary"
	"ingero/internal/store/log"
)

// appendHeadSum corrects the checksum of a frame's head.
func appendHeadSum(frame []byte) []byte {
	binary.LittleEndian.PutUint32(frame[12:], log.Checksum(frame[:12]))
	return frame
}

// fixSums corrects all checksums of a log, as far as its lengths lead.
func fixSums(b []byte) []byte {
	b = bytes.Clone(b)
	for at := len(log.Magic); at+log.HeadSize <= len(b); {
		n := int(binary.LittleEndian.Uint32(b[at:]))
		end := at + log.HeadSize + n
		if n > log.MaxBody || end > len(b) {
			break
		}
		binary.LittleEndian.PutUint32(b[at+8:], log.Checksum(b[at+log.HeadSize:end]))
		appendHeadSum(b[at:end])
		at = end
	}
	if at := len(b) - tailSize; at >= 0 && string(b[at+12:]) == tailMagic {
		binary.LittleEndian.PutUint32(b[at+8:], log.Checksum(b[at:at+8]))
	}
	return b
}
