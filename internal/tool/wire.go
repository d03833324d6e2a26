package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

const wireNameMax = 64

// wireName is a tool's name as providers accept it.
func wireName(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' {
			continue
		}
		b[i] = '_'
	}
	return string(b)
}

// wireNames gives each name a wire name of its own. It depends on the set of
// names alone, not on their order: of two that collide both are hashed, so that
// neither is taken for the other when one is later granted without its twin.
func wireNames(names []string) map[string]string {
	plainly := map[string]int{}
	for _, name := range names {
		plainly[wireName(name)]++
	}
	out := make(map[string]string, len(names))
	taken := map[string]bool{}
	var rest []string
	for _, name := range names {
		wire := wireName(name)
		if plainly[wire] > 1 || len(wire) > wireNameMax {
			rest = append(rest, name)
			continue
		}
		out[name], taken[wire] = wire, true
	}
	slices.Sort(rest)
	for _, name := range rest {
		sum := sha256.Sum256([]byte(name))
		digits := hex.EncodeToString(sum[:])
		for n := 8; n <= len(digits); n += 8 {
			wire := wireName(name)
			wire = wire[:min(len(wire), max(0, wireNameMax-1-n))] + "_" + digits[:n]
			if len(wire) <= wireNameMax && !taken[wire] {
				out[name], taken[wire] = wire, true
				break
			}
		}
	}
	return out
}
