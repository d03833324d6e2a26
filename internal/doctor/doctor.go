// Package doctor looks for what keeps Perdure from working: on this machine, or
// in an AWS account and a stack in it. It says of each thing how it stands, and
// what to do about it.
//
// It changes nothing. What it reads of secrets it never shows. It may import the
// client, the names of variables, internal/local for the local key, netguard and
// the adapter that reads AWS accounts.
package doctor

import (
	"strings"
)

// How a thing stands.
const (
	OK      = "ok"
	Note    = "note"    // nothing is wrong; worth knowing
	Ask     = "ask"     // AWS should be asked for more
	Unknown = "unknown" // it could not be read
	Wrong   = "wrong"   // it has to be mended
)

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"`
	// Of a limit: where it is kept, its code, what it is and should be.
	Service string  `json:"service,omitempty"`
	Quota   string  `json:"quota,omitempty"`
	Value   float64 `json:"value,omitempty"`
	Want    float64 `json:"want,omitempty"`
	// Permission is what it takes to read it, where that is missing.
	Permission string `json:"permission,omitempty"`
}

// Report is all that was looked at, in order.
type Report struct {
	// OK says that nothing is wrong.
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

func (r *Report) add(checks ...Check) { r.Checks = append(r.Checks, checks...) }

// done says whether all is well.
func (r *Report) done() Report {
	r.OK = true
	for _, c := range r.Checks {
		r.OK = r.OK && c.Status != Wrong
	}
	return *r
}

// line makes an error one line.
func line(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
