package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// Bounds of a schema.
const (
	SchemaMax     = 64 << 10 // bytes
	schemaCostMax = 1000     // schemas that one value may be checked against at once
)

// Schema is a JSON Schema (draft 2020-12 or draft-07) that values are checked
// against. It is safe for concurrent use.
type Schema struct {
	text  string // canonical
	tree  map[string]any
	nodes map[string]any // subschemas by JSON pointer
	whole *jsonschema.Resolved
	// parts is the schema without the rules that need the whole object. It is
	// asked for one property at a time, to name every wrong one and not only
	// the first.
	parts *jsonschema.Resolved
	// passed are arguments that it has accepted.
	passed passed
}

// Text is the canonical text of the schema.
func (s *Schema) Text() string { return s.text }

// CompileSchema reads a schema and says why it cannot be used: no schema at
// all, too big, a reference to somewhere else, or one that never comes to an
// end. With object set it must describe an object, as parameters do.
func CompileSchema(text string, object bool) (*Schema, error) {
	if len(text) > SchemaMax {
		return nil, fmt.Errorf("the schema has %d bytes, allowed are %d", len(text), SchemaMax)
	}
	v, err := ParseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	tree, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the schema is no JSON object")
	}
	if object && tree["type"] != "object" {
		return nil, errors.New(`the schema's type is not "object"`)
	}
	s := &Schema{text: Canonical(tree), tree: tree}
	if s.nodes, err = inspectSchema(tree); err != nil {
		return nil, err
	}
	if s.whole, err = resolveSchema(tree); err != nil {
		return nil, err
	}
	relaxed := make(map[string]any, len(tree))
	for keyword, value := range tree {
		if !slices.Contains(wholeRules, keyword) {
			relaxed[keyword] = value
		}
	}
	// A reference into one of the rules left out makes this fail; then only the
	// first wrong thing is named.
	if parts, err := resolveSchema(relaxed); err == nil {
		s.parts = parts
	}
	return s, nil
}

// wholeRules are keywords that look at an object as a whole, or apply other
// schemas to it.
var wholeRules = []string{
	"$ref", "required", "minProperties", "maxProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
	"dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "const", "enum",
}

// resolveSchema hands a tree to the library. An $id is left out: nothing may
// refer by it, and the library would name it in place of the path.
func resolveSchema(tree map[string]any) (resolved *jsonschema.Resolved, err error) {
	defer func() {
		// The library panics on some malformed schemas.
		if p := recover(); p != nil {
			resolved, err = nil, fmt.Errorf("the schema cannot be read: %v", p)
		}
	}()
	bare := make(map[string]any, len(tree))
	for keyword, value := range tree {
		if keyword != "$id" {
			bare[keyword] = value
		}
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(appendCanonical(nil, bare), &schema); err != nil {
		return nil, fmt.Errorf("the schema cannot be read: %w", err)
	}
	resolved, err = schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the schema cannot be used: %w", err)
	}
	return resolved, nil
}

// Check returns what is wrong with a parsed value, nil if it is valid.
func (s *Schema) Check(v any) *Invalid {
	value, err := plain(v)
	if err != nil {
		return &Invalid{Issues: []string{err.Error()}}
	}
	if err = judge(s.whole, value); err == nil {
		return nil
	}
	if object, ok := value.(map[string]any); ok && s.parts != nil {
		if issues := s.propertyIssues(object); len(issues) > 0 {
			return &Invalid{Issues: issues}
		}
	}
	return &Invalid{Issues: []string{s.issue(err)}}
}

// judge asks the library, which panics on some schemas that it has accepted.
func judge(schema *jsonschema.Resolved, value any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the schema cannot be applied: %v", p)
		}
	}()
	return schema.Validate(value)
}
