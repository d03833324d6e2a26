package api

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/internal/host"
)

// checkNames holds the names of a body against those that its schema knows.
// encoding/json would take "Input" for "input": that is refused as malformed,
// and a name that is not known as not valid. Neither answer repeats the name,
// which may be anything.
func (s *server) checkNames(schema *huma.Schema, body []byte) *Problem {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return invalidAt("body", "it cannot be read")
	}
	c := &nameCheck{registry: s.api.OpenAPI().Components.Schemas}
	c.walk(schema, v, "body")
	switch {
	case len(c.cased) > 0:
		p := invalid("a name has the wrong case")
		p.Errors = c.cased
		return p
	case len(c.unknown) > 0:
		p := problem(host.CodeValidation, "the body has a field that is not known, or no value")
		p.Errors = c.unknown
		return p
	}
	return nil
}

type nameCheck struct {
	registry       huma.Registry
	cased, unknown []FieldError
}

// fieldErrorsMax bounds what one answer lists.
const fieldErrorsMax = 16

func (c *nameCheck) walk(schema *huma.Schema, v any, at string) {
	schema = resolveRef(c.registry, schema)
	switch v := v.(type) {
	case map[string]any:
		c.object(pick(c.registry, schema, huma.TypeObject, v), v, at)
	case []any:
		schema = pick(c.registry, schema, huma.TypeArray, nil)
		if schema == nil || schema.Items == nil {
			return
		}
		for i, item := range v {
			c.walk(schema.Items, item, at+"["+strconv.Itoa(i)+"]")
		}
	}
}

func (c *nameCheck) object(schema *huma.Schema, v map[string]any, at string) {
	if schema == nil || len(c.cased)+len(c.unknown) >= fieldErrorsMax {
		return
	}
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if field := schema.Properties[name]; field != nil {
			if v[name] == nil && !takesNull(resolveRef(c.registry, field)) {
				c.unknown = append(c.unknown, FieldError{at + "." + name, "null is no value of this field; leave it out"})
			}
			c.walk(field, v[name], at+"."+name)
			continue
		}
		if meant := folded(schema, name); meant != "" {
			c.cased = append(c.cased, FieldError{at, "a name is not written as it should be: " + meant})
			continue
		}
		switch more := schema.AdditionalProperties.(type) {
		case *huma.Schema:
			c.walk(more, v[name], at+".*")
		case bool:
			if !more {
				c.unknown = append(c.unknown, FieldError{at, "a field is not known here; known are: " + strings.Join(known(schema), ", ")})
			}
		}
	}
}

// takesNull says whether null is a value of a schema. huma would take it for a
// field that is left out.
func takesNull(schema *huma.Schema) bool {
	return schema.Nullable || schema.Type == "" && len(schema.OneOf) == 0
}

// folded is the known name that encoding/json would take another one for.
func folded(schema *huma.Schema, name string) string {
	for k := range schema.Properties {
		if strings.EqualFold(k, name) {
			return k
		}
	}
	return ""
}

func known(schema *huma.Schema) []string {
	out := make([]string, 0, len(schema.Properties))
	for k := range schema.Properties {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func resolveRef(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	for schema != nil && schema.Ref != "" {
		schema = registry.SchemaFromRef(schema.Ref)
	}
	return schema
}

// pick is the branch of a schema that a value of a type belongs to: of several
// the one whose fixed fields it has.
func pick(registry huma.Registry, schema *huma.Schema, kind string, v map[string]any) *huma.Schema {
	if schema == nil || len(schema.OneOf) == 0 {
		return schema
	}
	var found *huma.Schema
	for _, branch := range schema.OneOf {
		branch = resolveRef(registry, branch)
		if branch.Type != kind {
			continue
		}
		if found == nil || fixed(branch, v) {
			found = branch
		}
	}
	return found
}

// fixed says whether a value has what an object's single-valued fields ask for.
func fixed(schema *huma.Schema, v map[string]any) bool {
	for name, field := range schema.Properties {
		if len(field.Enum) == 1 && v[name] != field.Enum[0] {
			return false
		}
	}
	return true
}

// location is a place in a request as far as the schema knows it: what stands
// under a name of the client's own is not told back.
func location(hctx huma.Context, at string) string {
	root, rest, deeper := strings.Cut(at, ".")
	if !deeper || !strings.HasPrefix(root, "body") || hctx.Operation() == nil || hctx.Operation().RequestBody == nil {
		return at
	}
	rt, _ := hctx.Operation().Metadata[metadataRegistry].(huma.Registry)
	if rt == nil {
		return root
	}
	schema := hctx.Operation().RequestBody.Content["application/json"].Schema
	out := root
	for part := range strings.SplitSeq(rest, ".") {
		name, index, _ := strings.Cut(part, "[")
		schema = resolveRef(rt, schema)
		field := fieldOf(rt, schema, name)
		if field == nil {
			return out + ".*"
		}
		out += "." + part
		schema = field
		if index != "" {
			schema = itemsOf(rt, resolveRef(rt, schema))
		}
	}
	return out
}

// fieldOf finds a field by name, in any branch.
func fieldOf(registry huma.Registry, schema *huma.Schema, name string) *huma.Schema {
	if schema == nil {
		return nil
	}
	if f := schema.Properties[name]; f != nil {
		return f
	}
	for _, b := range schema.OneOf {
		if f := resolveRef(registry, b).Properties[name]; f != nil {
			return f
		}
	}
	return nil
}

func itemsOf(registry huma.Registry, schema *huma.Schema) *huma.Schema {
	if schema == nil {
		return nil
	}
	if schema.Items != nil {
		return schema.Items
	}
	for _, b := range schema.OneOf {
		if b = resolveRef(registry, b); b.Items != nil {
			return b.Items
		}
	}
	return nil
}
