// Package clean uses another package of the tree and breaks no rule.
package clean

import (
	"errors"

	"example.com/fixture/wire"
)

var ErrInvalid = errors.New("invalid")

var planners = []func([]byte) error{check}

func Plan(b []byte) error {
	for _, planner := range planners {
		if err := planner(b); err != nil {
			return err
		}
	}

	return nil
}

func check(b []byte) error {
	if !wire.Valid(b) {
		return ErrInvalid
	}

	return nil
}
