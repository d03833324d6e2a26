package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/wire"
)

// feedTextMax is how much of a text an event of the feed carries; beyond it
// there is a reference and a preview.
const feedTextMax = 64 << 10

// FeedEvent is a stored event as the feed shows it: under its own kind and
// seq, texts resolved.
type FeedEvent struct {
	Seq  ident.Seq
	At   ident.Instant
	Kind string
	Data json.RawMessage
}

// Feed reads events after a position, at or below upTo, at most limit and
// about maxBytes of them.
func (e *Engine) Feed(ctx context.Context, key Key, after, upTo ident.Seq, limit int, maxBytes int64) ([]FeedEvent, error) {
	page, err := e.d.Log.Read(ctx, key, after, upTo, limit, maxBytes)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	return e.feed(ctx, key, page, maxBytes, false)
}

// FeedBefore reads the window of events just below a position, in order.
func (e *Engine) FeedBefore(ctx context.Context, key Key, before ident.Seq, limit int, maxBytes int64) ([]FeedEvent, error) {
	page, err := e.d.Log.ReadBefore(ctx, key, before, limit, maxBytes)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	return e.feed(ctx, key, page, maxBytes, true)
}

// RawLog returns the stored envelopes after a position, a line each.
func (e *Engine) RawLog(ctx context.Context, key Key, after, upTo ident.Seq) ([]StoredEntry, error) {
	page, err := e.d.Log.Read(ctx, key, after, upTo, pageEvents, pageBytes)
	if err != nil {
		return nil, errors.Join(ErrUnavailable, err)
	}
	return page, nil
}

// feed resolves a page. Texts make events larger than they are stored, so the
// page is cut again: at its end, or at its start when it is read backwards.
func (e *Engine) feed(ctx context.Context, key Key, page []StoredEntry, maxBytes int64, back bool) ([]FeedEvent, error) {
	out := make([]FeedEvent, 0, len(page))
	var size int64
	for i := range page {
		st := page[i]
		if back {
			st = page[len(page)-1-i]
		}
		h, err := wire.DecodeHeader(st.Data)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		data, err := e.resolveData(ctx, key, st.Data[h.Data:len(st.Data)-1])
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if size += int64(len(data)) + 80; size > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, FeedEvent{Seq: h.Seq, At: h.At, Kind: string(h.Kind), Data: data})
	}
	if back {
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out, nil
}

var refMark = []byte(`{"ref":"sha256:`)

// resolveData puts texts in the place of references, wherever they stand.
func (e *Engine) resolveData(ctx context.Context, key Key, data []byte) (json.RawMessage, error) {
	if !bytes.Contains(data, refMark) {
		return data, nil
	}
	var out bytes.Buffer
	for {
		i := bytes.Index(data, refMark)
		if i < 0 {
			out.Write(data)
			return out.Bytes(), nil
		}
		// The stored form of a reference holds no nested object, so its end is
		// the next brace; inside a JSON string the quotes would be escaped.
		end := bytes.IndexByte(data[i:], '}')
		if end < 0 {
			out.Write(data)
			return out.Bytes(), nil
		}
		out.Write(data[:i])
		text, err := e.resolveRef(ctx, key, data[i:i+end+1])
		if err != nil {
			return nil, err
		}
		out.Write(text)
		data = data[i+end+1:]
	}
}

func (e *Engine) resolveRef(ctx context.Context, key Key, form []byte) ([]byte, error) {
	var p blob.Payload
	if err := json.Unmarshal(form, &p); err != nil || p.Ref == "" {
		return form, nil //nolint:nilerr // not a reference after all: shown as it stands
	}
	text, err := e.resolve(ctx, key, p)
	if errors.Is(err, ErrNotFound) {
		return form, nil
	}
	if err != nil {
		return nil, err
	}
	if len(text) <= feedTextMax {
		return marshalText(text)
	}
	return json.Marshal(struct {
		Ref     blob.Ref `json:"ref"`
		Size    int64    `json:"size"`
		Preview string   `json:"preview"`
	}{p.Ref, p.Size, blob.Cut(text, blob.PreviewBytes)})
}

func marshalText(text string) ([]byte, error) {
	p := blob.Inline(text)
	return p.MarshalJSON()
}
