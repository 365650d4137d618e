// Package seed is the only source of chance.
//
// A draw is a pure function of the run's seed and a key that names the decision
// (rule, flow, direction, operation, index within the flow). So a draw does not
// depend on what other flows do, on scheduling, or on how often anything else
// was drawn.
package seed

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Seed governs all chance of a run.
type Seed uint64

// New returns a seed from the machine's randomness, for a run that names none.
func New() Seed {
	var b [8]byte
	// crypto/rand.Read never returns an error on the platforms we build for.
	_, _ = rand.Read(b[:])
	return Seed(binary.LittleEndian.Uint64(b[:]) >> 1)
}

// Key names a decision. Its parts are length-prefixed, so ("ab","c") and ("a","bc") differ.
type Key []string

// Uint64 returns the draw of a key, uniform over 64 bits.
func (s Seed) Uint64(index int64, key ...string) uint64 {
	sum := s.sum(index, key)
	return binary.LittleEndian.Uint64(sum[:8])
}

// Float returns the draw of a key, uniform over [0, 1).
func (s Seed) Float(index int64, key ...string) float64 {
	return float64(s.Uint64(index, key...)>>11) / (1 << 53)
}

// IntN returns the draw of a key, uniform over [0, n) up to 2^-32; n must be positive.
func (s Seed) IntN(n int, index int64, key ...string) int {
	hi := s.Uint64(index, key...) >> 32
	return int(hi * uint64(n) >> 32)
}

// Derive returns a seed of its own for a part of the run, such as a leaf.
func (s Seed) Derive(key ...string) Seed { return Seed(s.Uint64(-1, key...) >> 1) }

// ID returns a short name for content: the first n hexadecimal digits of its hash (n at most 64).
func ID(n int, parts ...string) string {
	sum := Seed(0).sum(0, parts)
	return hex.EncodeToString(sum[:])[:n]
}

func (s Seed) sum(index int64, key Key) [32]byte {
	b := make([]byte, 0, 128)
	b = binary.LittleEndian.AppendUint64(b, uint64(s))
	b = binary.LittleEndian.AppendUint64(b, uint64(index))
	for _, part := range key {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}
