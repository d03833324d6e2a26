package host

import (
	"context"
	"slices"
	"strconv"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// Spill turns texts into payloads: small ones ride in the event, larger ones
// become blobs of the commit that names them.
type Spill struct {
	blobs  []Blob
	inline []*blob.Payload
	total  int64
}

// Text makes a payload at to. What is not valid UTF-8 is made so: a log that
// cannot be read back is worth nothing.
func (p *Spill) Text(to *blob.Payload, text string) {
	text = blob.Cut(text, len(text)*3)
	if len(text) > blob.InlineMax {
		*to = p.store(text)
		return
	}
	*to = blob.Inline(text)
	if text != "" {
		p.inline = append(p.inline, to)
		p.total += int64(len(text))
	}
}

func (p *Spill) store(text string) blob.Payload {
	data := []byte(text)
	ref := blob.Sum(data)
	p.blobs = append(p.blobs, Blob{Ref: ref, Data: data})
	return blob.ByRef(ref, int64(len(data)))
}

// Prepare finishes a command: when its texts together are too much for one
// commit the largest are spilled first.
func (p *Spill) Prepare(c session.Command) Prepared {
	if p.total > blob.BatchInlineMax/2 {
		slices.SortStableFunc(p.inline, func(a, b *blob.Payload) int { return len(b.Text) - len(a.Text) })
		for _, to := range p.inline {
			if p.total <= blob.BatchInlineMax/2 {
				break
			}
			p.total -= int64(len(to.Text))
			*to = p.store(to.Text)
		}
	}
	return Prepared{Command: c, Blobs: p.blobs, Inline: p.total}
}

// resolve reads what a payload stands for.
func (e *Engine) resolve(ctx context.Context, key Key, p blob.Payload) (string, error) {
	if p.Ref == "" {
		return p.Text, nil
	}
	data, err := e.d.Blobs.GetBlob(ctx, key, p.Ref)
	return string(data), err
}

// Resolve reads a payload's text, at most limit bytes of it.
func (e *Engine) Resolve(ctx context.Context, key Key, p blob.Payload, limit int) (string, error) {
	text, err := e.resolve(ctx, key, p)
	return blob.Cut(text, limit), err
}

func uitoa(n uint64) string { return strconv.FormatUint(n, 10) }
