// Package highwayhash is HighwayHash-128, a keyed hash, written from its published description: plain Go, for short
// texts. The sums of all lengths that end a block differently are tested against the reference's.
package highwayhash

import (
	"encoding/binary"
	"math/bits"
)

// block is how many bytes are mixed at once.
const block = 32

// lanes are four words that are mixed beside each other.
type lanes [4]uint64

// What a state begins with: digits of pi.
var (
	begin0 = lanes{0xdbe6d5d5fe4cce2f, 0xa4093822299f31d0, 0x13198a2e03707344, 0x243f6a8885a308d3}
	begin1 = lanes{0x3bd39e10cb0ef593, 0xc0acf169b5f18a8c, 0xbe5466cf34e90c6c, 0x452821e638d01377}
)

// zipper is the order in which the bytes of two neighbouring words are added to two others, so that the bytes in the
// middle of a product, which are mixed best, spread.
var zipper = [16]int{3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7}

type state struct{ v0, v1, mul0, mul1 lanes }

// Sum128 is the hash of data under a key.
func Sum128(key [4]uint64, data []byte) [2]uint64 {
	s := state{mul0: begin0, mul1: begin1}
	for i, k := range key {
		s.v0[i] = begin0[i] ^ k
		s.v1[i] = begin1[i] ^ bits.RotateLeft64(k, 32)
	}
	for ; len(data) >= block; data = data[block:] {
		s.mix(data)
	}
	if len(data) > 0 {
		s.mixRest(data)
	}
	for range 6 {
		s.permute()
	}
	return [2]uint64{
		s.v0[0] + s.mul0[0] + s.v1[2] + s.mul1[2],
		s.v0[1] + s.mul0[1] + s.v1[3] + s.mul1[3],
	}
}

// mix mixes one block in.
func (s *state) mix(data []byte) {
	for i := range s.v0 {
		s.v1[i] += s.mul0[i] + binary.LittleEndian.Uint64(data[8*i:])
		s.mul0[i] ^= uint64(uint32(s.v1[i])) * (s.v0[i] >> 32)
		s.v0[i] += s.mul1[i]
		s.mul1[i] ^= uint64(uint32(s.v0[i])) * (s.v1[i] >> 32)
	}
	zip(&s.v0, &s.v1)
	zip(&s.v1, &s.v0)
}

// zip adds the bytes of one to the other, in the order of the zipper.
func zip(to, from *lanes) {
	for i := 0; i < len(to); i += 2 {
		var in, out [16]byte
		binary.LittleEndian.PutUint64(in[:], from[i])
		binary.LittleEndian.PutUint64(in[8:], from[i+1])
		for at, b := range zipper {
			out[at] = in[b]
		}
		to[i] += binary.LittleEndian.Uint64(out[:])
		to[i+1] += binary.LittleEndian.Uint64(out[8:])
	}
}

// mixRest mixes the last bytes in, which are fewer than a block. Their number changes the state, so zeros at the end
// count. The last 1 to 3 of them, or 4 if there are at least 16, go to the block's second half.
func (s *state) mixRest(data []byte) {
	n := len(data)
	for i := range s.v0 {
		s.v0[i] += uint64(n)<<32 + uint64(n)
		high, low := uint32(s.v1[i]>>32), uint32(s.v1[i])
		s.v1[i] = uint64(bits.RotateLeft32(high, n))<<32 | uint64(bits.RotateLeft32(low, n))
	}
	var packet [block]byte
	whole := n &^ 3
	copy(packet[:], data[:whole])
	switch last := data[whole:]; {
	case n >= 16:
		copy(packet[28:], data[n-4:])
	case len(last) > 0:
		packet[16], packet[17], packet[18] = last[0], last[len(last)/2], last[len(last)-1]
	}
	s.mix(packet[:])
}

// permute mixes the state into itself.
func (s *state) permute() {
	var packet [block]byte
	for i := range s.v0 {
		binary.LittleEndian.PutUint64(packet[8*i:], bits.RotateLeft64(s.v0[i^2], 32))
	}
	s.mix(packet[:])
}
