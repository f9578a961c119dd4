package probes

import (
	"encoding/hex"
	"strings"
	"testing"
)

func TestPlaceX86(t *testing.T) {
	for _, tt := range []struct {
		name string
		code string // hexadecimal
		off  uint64
		at   Place
	}{
		{"push", "55 4889e5 5d c3", 0, PlaceEmulated},
		{"push of a new register", "4157 415f c3", 0, PlaceEmulated},
		{"nop", "90 31c0 c3", 0, PlaceEmulated},
		{"jcc", "7402 31c0 c3", 0, PlaceEmulated},
		{"endbr64, push", "f30f1efa 55 5d c3", 4, PlaceEmulated},
		{"libcuda's stub: cmp, je, jmp *table", "813d 11223344 01000000 740a ff25 00112233 0f1f4000 31c0 c3", 10, PlaceEmulated},
		{"cmp with a byte", "833d 11223344 01 7402 31c0 c3", 7, PlaceEmulated},
		{"lea to r10, push", "4c8d5424 08 55 5d c3", 5, PlaceEmulated},
		{"mov to r11d, push", "41bb 01000000 55 5d c3", 6, PlaceEmulated},
		{"nothing known", "31c0 c3", 0, PlaceStepped},
		{"sub rsp", "4883ec08 4883c408 c3", 0, PlaceStepped},
		{"endbr64, then nothing known", "f30f1efa 4883ec08 4883c408 c3", 0, PlaceStepped},
		{"cmp of an argument is no stub", "4883ff01 7402 31c0 c3", 0, PlaceStepped},
		{"mov to an argument", "bf01000000 55 5d c3", 0, PlaceStepped},
		{"mov to rsp", "4889fc 55 5d c3", 0, PlaceStepped},
		// jmp back to the push after endbr64: a second hit of the probe would count as a second
		// call.
		{"a branch to the place", "f30f1efa 55 ebfd", 0, PlaceStepped},
		{"a branch into what is skipped", "f30f1efa 55 ebfb", 0, PlaceStepped},
		{"a branch to the first byte is another call", "f30f1efa 55 ebf9", 4, PlaceEmulated},
		{"undecodable: it might hide a branch", "f30f1efa 55 06 c3", 0, PlaceStepped},
		{"cut off in the prologue", "f30f1efa", 0, PlaceStepped},
		{"empty", "", 0, PlaceStepped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, err := hex.DecodeString(strings.ReplaceAll(tt.code, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if off, at := placeX86(code); off != tt.off || at != tt.at {
				t.Errorf("place = +%d, %d, want +%d, %d", off, at, tt.off, tt.at)
			}
		})
	}
}

func TestPlaceARM64(t *testing.T) {
	for _, tt := range []struct {
		name string
		code string // hexadecimal, in memory order
		off  uint64
	}{
		{"bti c", "5f2403d5 fd7bbfa9", 4},
		{"bti jc", "df2403d5 fd7bbfa9", 4},
		{"paciasp is not passed", "3f2303d5 fd7bbfa9", 0},
		{"bti, paciasp: on it, not past it", "5f2403d5 3f2303d5", 4},
		{"stp", "fd7bbfa9 fd030091", 0},
		{"bti alone", "5f2403d5", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, err := hex.DecodeString(strings.ReplaceAll(tt.code, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			if off := placeARM64(code); off != tt.off {
				t.Errorf("place = +%d, want +%d", off, tt.off)
			}
		})
	}
}

// For any bytes, the place is within the code, and no decoded branch leads into skipped code.
func FuzzPlaceX86(f *testing.F) {
	f.Add([]byte{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0xeb, 0xfd})
	f.Add([]byte{0x81, 0x3d, 1, 2, 3, 4, 5, 6, 7, 8, 0x74, 0x0a})
	f.Fuzz(func(t *testing.T, code []byte) {
		off, at := placeX86(code)
		if off > 0 && (off >= uint64(len(code)) || at != PlaceEmulated) {
			t.Errorf("place = +%d, %d of %d bytes", off, at, len(code))
		}
	})
}
