package http

import (
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/outside"
)

// Spec is the tool of a definition. One that cannot be used is left out of
// every offer by the registry, with the reason.
func (c *Caller) Spec(d outside.Definition) tool.Spec {
	spec, result := d.Spec()
	t := &outsideTool{Caller: c, Definition: d, answers: outside.Answers{Who: "the tool's server", Result: result}}
	spec.Target, spec.Run = "http "+d.URL, t.run
	if d.Lookup {
		spec.Lookup = t.lookup
	}
	return spec
}
