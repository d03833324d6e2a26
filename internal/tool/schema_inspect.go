package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Where a schema holds other schemas.
var (
	inPlaceOne  = []string{"not", "if", "then", "else"}
	inPlaceList = []string{"allOf", "anyOf", "oneOf"}
	inPlaceMap  = []string{"dependentSchemas", "dependencies"}
	belowOne    = []string{"additionalItems", "additionalProperties", "contains", "items", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
	belowList   = []string{"items", "prefixItems"}
	belowMap    = []string{"$defs", "definitions", "patternProperties", "properties"}
	jsonTypes   = []string{"array", "boolean", "integer", "null", "number", "object", "string"}
	drafts      = []string{
		"http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema",
		"https://json-schema.org/draft/2020-12/schema",
	}
)

// inspection collects the subschemas of a schema, and which of them are
// applied to the same value as which.
type inspection struct {
	nodes map[string]any
	same  map[string][]string
	refs  map[string]string
}

// inspectSchema refuses what the library would accept and then not survive:
// references that lead in a circle without descending into the value (it would
// exhaust the stack, which nothing recovers from), schemas that multiply, and
// references that need another document.
func inspectSchema(tree map[string]any) (map[string]any, error) {
	in := inspection{nodes: map[string]any{}, same: map[string][]string{}, refs: map[string]string{}}
	if version, there := tree["$schema"]; there {
		text, _ := version.(string)
		if !slices.Contains(drafts, strings.TrimSuffix(text, "#")) {
			return nil, errors.New("$schema: only draft 2020-12 and draft-07 are known")
		}
	}
	if err := in.walk("", tree); err != nil {
		return nil, err
	}
	for from, to := range in.refs {
		if _, there := in.nodes[to]; !there {
			return nil, errors.New("a $ref points to no schema in this document")
		}
		in.same[from] = append(in.same[from], to)
	}
	cost := map[string]int{}
	for at := range in.nodes {
		if _, err := in.cost(at, cost); err != nil {
			return nil, err
		}
	}
	return in.nodes, nil
}

func (in *inspection) walk(at string, v any) error {
	if _, isBool := v.(bool); isBool {
		in.nodes[at] = v
		return nil
	}
	node, ok := v.(map[string]any)
	if !ok {
		return errors.New("a schema is neither an object nor a boolean")
	}
	in.nodes[at] = node
	if err := in.keywords(at, node); err != nil {
		return err
	}
	for _, keyword := range inPlaceOne {
		if err := in.one(at, keyword, node, true); err != nil {
			return err
		}
	}
	for _, keyword := range belowOne {
		if _, isList := node[keyword].([]any); isList && keyword == "items" {
			continue
		}
		if err := in.one(at, keyword, node, false); err != nil {
			return err
		}
	}
	for _, keyword := range slices.Concat(inPlaceList, belowList) {
		if err := in.list(at, keyword, node, slices.Contains(inPlaceList, keyword)); err != nil {
			return err
		}
	}
	for _, keyword := range slices.Concat(inPlaceMap, belowMap) {
		if err := in.named(at, keyword, node, slices.Contains(inPlaceMap, keyword)); err != nil {
			return err
		}
	}
	return nil
}

func (in *inspection) child(at, step string, v any, same bool) error {
	to := at + "/" + step
	if same {
		in.same[at] = append(in.same[at], to)
	}
	return in.walk(to, v)
}

func (in *inspection) one(at, keyword string, node map[string]any, same bool) error {
	v, there := node[keyword]
	if !there {
		return nil
	}
	return in.child(at, keyword, v, same)
}

func (in *inspection) list(at, keyword string, node map[string]any, same bool) error {
	v, there := node[keyword]
	if !there {
		return nil
	}
	items, ok := v.([]any)
	if !ok {
		if keyword == "items" {
			return nil
		}
		return fmt.Errorf("%s is no array", keyword)
	}
	for i, item := range items {
		if err := in.child(at, keyword+"/"+strconv.Itoa(i), item, same); err != nil {
			return err
		}
	}
	return nil
}

func (in *inspection) named(at, keyword string, node map[string]any, same bool) error {
	v, there := node[keyword]
	if !there {
		return nil
	}
	entries, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is no object", keyword)
	}
	for name, entry := range entries {
		if _, isList := entry.([]any); isList && keyword == "dependencies" {
			continue
		}
		if err := in.child(at, keyword+"/"+escapePointer(name), entry, same); err != nil {
			return err
		}
	}
	return nil
}

// keywords checks what one schema says without looking into others.
func (in *inspection) keywords(at string, node map[string]any) error {
	for _, keyword := range []string{"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"} {
		if _, there := node[keyword]; there {
			return fmt.Errorf("%s is not supported: refer by JSON pointer", keyword)
		}
	}
	if _, there := node["$id"]; there && at != "" {
		return errors.New("$id is not supported below the root")
	}
	if ref, there := node["$ref"]; there {
		text, _ := ref.(string)
		if text != "#" && !strings.HasPrefix(text, "#/") {
			return errors.New("a $ref must point into this document (#/…)")
		}
		pointer, err := url.PathUnescape(text[1:])
		if err != nil {
			return fmt.Errorf("a $ref: %w", err)
		}
		in.refs[at] = pointer
	}
	if kinds, there := node["type"]; there {
		list, isList := kinds.([]any)
		if !isList {
			list = []any{kinds}
		}
		for _, kind := range list {
			if name, _ := kind.(string); !slices.Contains(jsonTypes, name) {
				return errors.New("a type is none of " + strings.Join(jsonTypes, ", "))
			}
		}
	}
	if of, there := node["multipleOf"].(json.Number); there {
		if f, err := of.Float64(); err != nil || f <= 0 {
			return errors.New("multipleOf must be above 0")
		}
	}
	return nil
}

// cost is how many schemas are applied when the one at a pointer is. A schema
// that is being counted has cost -1: meeting it again is a circle.
func (in *inspection) cost(at string, known map[string]int) (int, error) {
	switch c, there := known[at]; {
	case there && c < 0:
		return 0, errors.New("references lead in a circle")
	case there:
		return c, nil
	}
	known[at] = -1
	total := 1
	for _, to := range in.same[at] {
		c, err := in.cost(to, known)
		if err != nil {
			return 0, err
		}
		if total += c; total > schemaCostMax {
			return 0, fmt.Errorf("more than %d schemas apply to one value", schemaCostMax)
		}
	}
	known[at] = total
	return total, nil
}

func escapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func unescapePointer(step string) string {
	return strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
}
