package probes

import (
	"encoding/binary"
	"runtime"

	"golang.org/x/arch/x86/x86asm"

	"ingero/internal/bpf"
)

// Place is the kind of instruction that a probe is on. It decides the cost: an instruction that the
// kernel emulates costs one trap, any other two, and the second costs more.
type Place uint8

// The places, numbered as in bpf/abi.h.
const (
	PlaceEmulated = Place(bpf.IngeroPlacePLACE_EMULATED)
	PlaceStepped  = Place(bpf.IngeroPlacePLACE_STEPPED)
)

// place returns where to put a function's probe, as an offset from its first byte. code is the
// function's code, complete if its size is known.
//
// Beyond the first byte, place skips only instructions on a short list, which leave the stack
// pointer and all arguments alone, and only if no branch of the function leads back into the
// skipped ones.
func place(code []byte) (offset uint64, at Place) {
	if runtime.GOARCH == "arm64" {
		return placeARM64(code), PlaceStepped
	}
	return placeX86(code)
}

const maxSkipped = 3 // instructions

func placeX86(code []byte) (uint64, Place) {
	pos := 0
	for range maxSkipped {
		if emulatedX86(code[pos:]) {
			break
		}
		n := skippableX86(code[pos:])
		if n == 0 || pos+n >= len(code) {
			return 0, PlaceStepped
		}
		pos += n
	}
	switch {
	case !emulatedX86(code[pos:]):
		return 0, PlaceStepped
	case pos > 0 && entersX86(code, pos):
		return 0, PlaceStepped
	}
	return uint64(pos), PlaceEmulated
}

// emulatedX86 reports whether the kernel emulates the first instruction: arch/x86/kernel/uprobes.c,
// push_setup_xol_ops and branch_setup_xol_ops.
func emulatedX86(b []byte) bool {
	switch {
	case len(b) == 0:
		return false
	case b[0]&0xf8 == 0x50, b[0] == 0x90, b[0]&0xf0 == 0x70: // push, nop, jcc rel8
		return true
	case len(b) < 2:
		return false
	case b[0] == 0x41 && b[1]&0xf8 == 0x50: // push r8-r15
		return true
	case b[0] == 0x0f && b[1]&0xf0 == 0x80: // jcc rel32
		return true
	}
	return false
}

// skippableX86 returns the length of the first instruction if it may be skipped, else 0: endbr64;
// cmp $imm,disp(%rip); mov and lea to r10 or r11, which carry no argument.
func skippableX86(b []byte) int {
	if len(b) >= 4 && binary.LittleEndian.Uint32(b) == 0xfa1e0ff3 {
		return 4
	}
	in, err := x86asm.Decode(b, 64)
	if err != nil {
		return 0
	}
	switch in.Op {
	case x86asm.CMP:
		m, ok := in.Args[0].(x86asm.Mem)
		_, imm := in.Args[1].(x86asm.Imm)
		if ok && imm && m.Base == x86asm.RIP {
			return in.Len
		}
	case x86asm.MOV, x86asm.LEA:
		switch in.Args[0] {
		case x86asm.R10, x86asm.R10L, x86asm.R11, x86asm.R11L:
			return in.Len
		}
	}
	return 0
}

// entersX86 reports whether a direct branch in the function leads to an offset from 1 to end.
// Undecodable code might contain one, so it counts.
func entersX86(code []byte, end int) bool {
	for pos := 0; pos < len(code); {
		if len(code)-pos >= 4 && binary.LittleEndian.Uint32(code[pos:]) == 0xfa1e0ff3 {
			pos += 4
			continue
		}
		in, err := x86asm.Decode(code[pos:], 64)
		if err != nil || in.Len == 0 {
			return true
		}
		pos += in.Len
		if rel, ok := in.Args[0].(x86asm.Rel); ok {
			if to := pos + int(rel); to > 0 && to <= end {
				return true
			}
		}
	}
	return false
}

// placeARM64 skips a landing pad (bti). It never skips paciasp: that signs the return address, and
// a return probe would replace a signed one.
func placeARM64(code []byte) uint64 {
	const bti, btiMask = 0xd503241f, 0xffffff3f
	if len(code) >= 8 && binary.LittleEndian.Uint32(code)&btiMask == bti {
		return 4
	}
	return 0
}
