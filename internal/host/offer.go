package host

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// offerMs is how long an offer of tools is taken for current.
const offerMs = ident.Second

// offerCache is what a driver's world offers now, with the definitions that
// the model reads, rendered once.
type offerCache struct {
	at       ident.Instant
	revision int64
	model    session.Model
	offer    session.Offer
	body     []byte // the definitions: the blob that session.Offer.Ref names
	defs     []definition
	info     ModelInfo
}

// definition is a tool as the model reads it, in the blob of a toolset.
type definition struct {
	Name        string `json:"name"`
	WireName    string `json:"wireName"`
	Description string `json:"description"`
	Parameters  string `json:"parameters"`
}

func (c *offerCache) refresh(ctx context.Context, d *driver, s session.State, m session.Model, now ident.Instant) error {
	if c.at != 0 && c.revision == s.ConfigRevision && c.model == m && int64(now-c.at) < offerMs {
		return nil
	}
	tools, err := d.e.d.Tools.Offer(ctx, d.key, s.Config)
	if err != nil {
		return err
	}
	c.at, c.revision, c.model, c.info = now, s.ConfigRevision, m, ModelInfo{}
	if port, err := d.e.d.Models.Model(ctx, d.key.Tenant, m); err == nil {
		c.info = port.Info(m)
	}
	defs := make([]session.ToolDef, len(tools))
	body := make([]definition, len(tools))
	for i, t := range tools {
		defs[i] = t.Def
		body[i] = definition{t.Def.Name, t.Def.WireName, t.Description, t.Parameters}
	}
	c.offer, c.body, c.defs = session.Offer{Tools: defs}, nil, body
	if len(tools) == 0 {
		return nil
	}
	if c.body, err = json.Marshal(body); err != nil {
		return err
	}
	c.offer.Ref, c.offer.Size = string(blob.Sum(c.body)), int64(len(c.body))
	return nil
}

// definitions reads the tools that a turn was planned with: from the offer at
// hand if that is the one, else from its blob.
func (e *Engine) definitions(ctx context.Context, key Key, ref blob.Ref, c offerCache) ([]definition, error) {
	if ref == "" {
		return nil, nil
	}
	if c.offer.Ref == string(ref) {
		return c.defs, nil
	}
	body, err := e.d.Blobs.GetBlob(ctx, key, ref)
	if err != nil {
		return nil, err
	}
	var defs []definition
	if err := json.Unmarshal(body, &defs); err != nil {
		return nil, err
	}
	return defs, nil
}
