package host

import (
	"context"
	"encoding/json"
	"errors"

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
	tools    bool
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

// wanted is what an offer is made for.
type wanted struct {
	config   session.Config
	revision int64
	model    session.Model
	tools    bool // a driver plans with it; an admission asks for the model alone
}

// refresh looks again at what is offered, at most once a second. An error says
// that the tools cannot be listed now; a model that cannot be looked up is one
// of which nothing is known, until the next look.
func (c *offerCache) refresh(ctx context.Context, d *driver, w wanted, now ident.Instant) error {
	age := int64(now - c.at)
	if c.at != 0 && c.revision == w.revision && c.model == w.model && c.tools == w.tools && age >= 0 && age < offerMs {
		return nil
	}
	var tools []Tool
	var err error
	if w.tools {
		if tools, err = d.list(ctx, w.config); err != nil {
			c.at = 0
			return err
		}
	}
	*c = offerCache{at: now, revision: w.revision, model: w.model, tools: w.tools}
	if port, err := d.e.d.Models.Model(ctx, d.key.Tenant, w.model); err == nil {
		c.info = port.Info(w.model)
	} else if !errors.Is(err, ErrNotFound) {
		c.at = 0
	}
	defs := make([]session.ToolDef, len(tools))
	body := make([]definition, len(tools))
	for i, t := range tools {
		defs[i] = t.Def
		body[i] = definition{t.Def.Name, t.Def.WireName, t.Description, t.Parameters}
	}
	c.offer, c.defs = session.Offer{Tools: defs}, body
	if len(tools) == 0 {
		return nil
	}
	if c.body, err = json.Marshal(body); err != nil {
		return err
	}
	c.offer.Ref, c.offer.Size = string(blob.Sum(c.body)), int64(len(c.body))
	return nil
}

// list asks for the offer. A panic there is no reason to stop taking commands.
func (d *driver) list(ctx context.Context, cfg session.Config) (tools []Tool, err error) {
	defer func() {
		if p := caught(recover()); p != nil {
			tools, err = nil, p
		}
	}()
	return d.e.d.Tools.Offer(ctx, d.key, cfg)
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
