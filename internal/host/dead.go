package host

import (
	"context"

	"github.com/perdure/perdure/core/session"
)

// rowDead says that a message was noted as dead. A queue may deliver the last
// time twice, and the note is one.
func rowDead(id string) string { return "ded#" + id }

func (d *driver) noted(ctx context.Context, c *session.NoteDead) error {
	c.Noted = false
	return d.row(ctx, rowDead(c.ID), &c.Noted)
}

func (p *projector) dead(e *session.CommandDead) {
	p.put(rowDead(e.ID), 0, true)
	for i := range p.rows {
		if p.rows[i].Key == rowDead(e.ID) {
			p.rows[i].IfAbsent = true
		}
	}
}
