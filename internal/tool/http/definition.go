package http

import (
	"errors"
	"fmt"
	"net/url"
	"unicode/utf8"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/tool"
)

// Completions: whether the model waits for the result of a call, or gets a
// promise of it.
const (
	Joined  = "joined"
	Promise = "promise"
)

// Bounds of a definition.
const (
	urlMax         = 2048 // bytes
	descriptionMax = 8 << 10
)

// Definition is an outside tool as an admin sets it up, and as it is stored.
type Definition struct {
	Name         string `json:"name"`
	URL          string `json:"url"`
	Secret       string `json:"secret,omitempty"` // name of what signs the calls; never the value
	Description  string `json:"description"`
	Parameters   string `json:"parameters"`             // JSON Schema text
	ResultSchema string `json:"resultSchema,omitempty"` // JSON Schema text; empty: anything
	Kind         string `json:"kind"`
	RetrySafe    bool   `json:"retrySafe,omitempty"`
	Parallel     bool   `json:"parallel,omitempty"`
	Completion   string `json:"completion"`
	// TimeoutSeconds bounds the whole call, its later answer included; 0 is
	// the default of promises.
	TimeoutSeconds int64  `json:"timeoutSeconds,omitempty"`
	RequiresRole   string `json:"requiresRole,omitempty"`
	// Lookup says that a GET at the URL with ?operation=<id> tells what became
	// of a call.
	Lookup bool `json:"lookup,omitempty"`
}

// Validate says why a definition cannot be used.
func (d Definition) Validate() error {
	if _, err := ident.ParseName("tool name", d.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if err := checkURL(d.URL); err != nil {
		return err
	}
	switch {
	case d.Kind != tool.KindRead && d.Kind != tool.KindAction:
		return errors.New("kind is neither read nor action")
	case d.Completion != Joined && d.Completion != Promise:
		return errors.New("completion is neither joined nor promise")
	case d.TimeoutSeconds < 0 || d.TimeoutSeconds > session.PromiseMax/ident.Second:
		return fmt.Errorf("timeoutSeconds is not between 0 and %d", session.PromiseMax/ident.Second)
	case d.Description == "" || len(d.Description) > descriptionMax || !utf8.ValidString(d.Description):
		return fmt.Errorf("description is not UTF-8 of 1 to %d bytes", descriptionMax)
	}
	if _, err := tool.CompileSchema(d.Parameters, true); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if d.ResultSchema != "" {
		if _, err := tool.CompileSchema(d.ResultSchema, false); err != nil {
			return fmt.Errorf("resultSchema: %w", err)
		}
	}
	return nil
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("url cannot be read") // the error repeats it
	case len(text) > urlMax:
		return fmt.Errorf("url has %d bytes, allowed are %d", len(text), urlMax)
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url is neither http nor https")
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("url has no host")
	case u.User != nil:
		return errors.New("url carries a credential: use secret")
	case u.Fragment != "":
		return errors.New("url has a fragment")
	}
	return nil
}

// Spec is the tool of a definition. One that cannot be used is left out of
// every offer by the registry, with the reason.
func (c *Caller) Spec(d Definition) tool.Spec {
	class := session.ClassJoined
	if d.Completion == Promise {
		class = session.ClassPromise
	}
	t := &outside{Caller: c, Definition: d}
	spec := tool.Spec{
		Name: d.Name, Kind: d.Kind, Class: class, Description: d.Description, Parameters: d.Parameters,
		RetrySafe: d.RetrySafe, Parallel: d.Parallel, DeadlineMs: d.TimeoutSeconds * ident.Second,
		RequiresRole: d.RequiresRole, Target: "http " + d.URL, Invalid: d.Validate(), Run: t.run,
	}
	if d.Lookup {
		spec.Lookup = t.lookup
	}
	if spec.Invalid == nil && d.ResultSchema != "" {
		t.result, spec.Invalid = tool.CompileSchema(d.ResultSchema, false)
	}
	return spec
}
