package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/tool"
)

func TestSchemasThatCannotBeUsedAreRefused(t *testing.T) {
	t.Parallel()
	twice := []string{`"d0":{"type":"object"}`}
	for i := 1; i < 40; i++ {
		twice = append(twice, fmt.Sprintf(`"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i-1, i-1))
	}
	doubling := `{"type":"object","$defs":{` + strings.Join(twice, ",") + `},"$ref":"#/$defs/d39"}`
	for _, c := range []struct{ text, says string }{
		{``, "empty"},
		{`{`, "double quotes"},
		{`[]`, "no JSON object"},
		{`true`, "no JSON object"},
		{`{}`, `type is not "object"`},
		{`{"type":"string"}`, `type is not "object"`},
		{`{"type":["object","null"]}`, `type is not "object"`},
		{`{"type":"object","type":"object"}`, "twice"},
		{`{"type":"object","properties":{"x":{"type":"strin"}}}`, "type is none of"},
		{`{"type":"object","properties":{"x":{"type":7}}}`, "type is none of"},
		{`{"type":"object","properties":{"x":"string"}}`, "neither an object nor a boolean"},
		{`{"type":"object","properties":[]}`, "properties is no object"},
		{`{"type":"object","required":"x"}`, "cannot be read"},
		{`{"type":"object","minProperties":"x"}`, "cannot be read"},
		{`{"type":"object","properties":{"x":{"pattern":"("}}}`, "cannot be used"},
		{`{"type":"object","properties":{"x":{"pattern":"(?=a)"}}}`, "cannot be used"},
		{`{"type":"object","properties":{"x":{"multipleOf":0}}}`, "multipleOf"},
		{`{"type":"object","allOf":{}}`, "allOf is no array"},
		{`{"type":"object","$schema":"http://json-schema.org/draft-04/schema#"}`, "$schema"},
		{`{"type":"object","properties":{"x":{"$ref":"http://example.com/x"}}}`, "must point into this document"},
		{`{"type":"object","properties":{"x":{"$ref":"other.json#/x"}}}`, "must point into this document"},
		{`{"type":"object","properties":{"x":{"$ref":"#/$defs/none"}}}`, "points to no schema"},
		{`{"type":"object","properties":{"x":{"$ref":5}}}`, "must point into this document"},
		{`{"type":"object","properties":{"x":{"$dynamicRef":"#a"}}}`, "$dynamicRef"},
		{`{"type":"object","properties":{"x":{"$anchor":"a"}}}`, "$anchor"},
		{`{"type":"object","properties":{"x":{"$id":"a"}}}`, "$id"},
		{`{"type":"object","$ref":"#"}`, "circle"},
		{`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`, "circle"},
		{doubling, "more than 1000 schemas"},
		{`{"type":"object","description":"` + strings.Repeat("x", 64<<10) + `"}`, "allowed are"},
	} {
		_, err := tool.CompileSchema(c.text, true)
		require.ErrorContains(t, err, c.says, "%.120s", c.text)
	}
}

func TestSchemasInUseAreAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"type":"object"}`,
		`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a"}}}`,
		`{"type":"object","$id":"https://example.com/tool","$schema":"https://json-schema.org/draft/2020-12/schema"}`,
		`{"type":"object","properties":{"$ref":{"type":"string"},"$id":{"type":"string"},"allOf":{"type":"array"}}}`,
		`{"type":"object","properties":{"tree":{"$ref":"#/$defs/node"}},"$defs":{"node":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/node"}}}}}}`,
		`{"type":"object","properties":{"self":{"$ref":"#"}}}`,
		`{"type":"object","properties":{"a/b":{"$ref":"#/properties/c~1d"},"c/d":true}}`,
		`{"type":"object","allOf":[{"properties":{"a":{"type":"string"}}}],"properties":{"b":{"$ref":"#/allOf/0/properties/a"}}}`,
		`{"type":"object","properties":{"x":{"items":[{"type":"string"},true],"additionalItems":false,"default":{"type":"anything"},"enum":[{"$ref":1}]}},"dependencies":{"x":["y"],"y":{"minProperties":2}}}`,
	} {
		s, err := tool.CompileSchema(text, true)
		require.NoError(t, err, text)
		require.Nil(t, s.Check(map[string]any{}), text)
	}
}

func TestOneSchemaHasOneText(t *testing.T) {
	t.Parallel()
	a, err := tool.CompileSchema(`{"type":"object","required":["a"],"properties":{"b":{"const":1.0},"a":{"description":"<é>"}}}`, true)
	require.NoError(t, err)
	b, err := tool.CompileSchema(` { "properties": {"a":{"description":"<\u00e9>"}, "b":{"const":1.0}}, "type":"object", "required":["a"] } `, true)
	require.NoError(t, err)
	require.Equal(t, a.Text(), b.Text())
	require.Equal(t, `{"properties":{"a":{"description":"<é>"},"b":{"const":1.0}},"required":["a"],"type":"object"}`, a.Text())
}

const trip = `{"type":"object","properties":{
	"to":{"type":"string","minLength":2,"pattern":"^[a-z: ]+$"},
	"class":{"enum":["first","second"]},
	"seats":{"type":"array","maxItems":3,"items":{"type":"object","properties":{"row":{"$ref":"#/$defs/row"}},"required":["row"],"additionalProperties":false}},
	"a: b":{"type":"integer"},
	"price":{"type":"number","multipleOf":0.5}},
	"required":["to"],"additionalProperties":false,"$defs":{"row":{"type":"integer","minimum":1}}}`

func TestIssuesNamePathAndRuleAndRepeatNoValue(t *testing.T) {
	t.Parallel()
	s, err := tool.CompileSchema(trip, true)
	require.NoError(t, err)
	for _, c := range []struct {
		text string
		want []string
	}{
		{`{"to":"rome","class":"first","seats":[{"row":1}],"price":1.5,"a: b":7}`, nil},
		{`{"to":"rome","a: b":7.0}`, nil},
		{`{}`, []string{"missing: to"}},
		{`{"to":5}`, []string{`to: breaks type "string"`}},
		{`{"to":"S"}`, []string{`to: breaks minLength 2`}},
		{`{"to":"SECRET"}`, []string{`to: breaks pattern "^[a-z: ]+$"`}},
		{`{"to":"rome","class":"SECRET"}`, []string{`class: breaks enum ["first","second"]`}},
		{`{"to":"rome","seats":[{"row":1},{"row":0}]}`, []string{`seats[].row: breaks minimum 1`}},
		{`{"to":"rome","seats":[{}]}`, []string{`seats[]: breaks required ["row"]`}},
		{`{"to":"rome","seats":[{"row":1,"SECRET":1}]}`, []string{`seats[]: breaks additionalProperties false`}},
		{`{"to":"rome","a: b":"validating root: SECRET"}`, []string{`a: b: breaks type "integer"`}},
		{`{"to":"rome","price":1.3}`, []string{`price: breaks multipleOf 0.5`}},
		{`{"to":"rome","price":1e400}`, []string{`a number is out of range`}},
		{`{"SECRET":1,"SECRET2":2,"to":"rome"}`, []string{`2 unknown properties, known are: a: b, class, price, seats, to`}},
		{`{"class":1,"seats":{},"x":1}`, []string{
			"missing: to", `class: breaks enum ["first","second"]`, `seats: breaks type "array"`, `1 unknown properties, known are: a: b, class, price, seats, to`,
		}},
	} {
		v, err := tool.ParseArguments(c.text)
		require.NoError(t, err)
		bad := s.Check(v)
		if c.want == nil {
			require.Nil(t, bad, c.text)
			continue
		}
		require.NotNil(t, bad, c.text)
		require.Equal(t, c.want, bad.Issues, c.text)
		require.NotContains(t, bad.Text(), "SECRET")
	}
}

func TestRulesOverTheWholeAreNamedToo(t *testing.T) {
	t.Parallel()
	s, err := tool.CompileSchema(`{"type":"object","properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, true)
	require.NoError(t, err)
	bad := s.Check(map[string]any{"a": "SECRET", "b": "SECRET"})
	require.NotNil(t, bad)
	require.Equal(t, []string{`the whole: breaks oneOf [{"required":["a"]},{"required":["b"]}]`}, bad.Issues)
	require.Nil(t, s.Check(map[string]any{"a": "x"}))
}

func TestIssuesAreBounded(t *testing.T) {
	t.Parallel()
	properties, values := []string{}, map[string]any{}
	for i := range 500 {
		properties = append(properties, fmt.Sprintf(`"é%d":{"type":"string"}`, i))
		values[fmt.Sprintf("é%d", i)] = true
	}
	s, err := tool.CompileSchema(`{"type":"object","properties":{`+strings.Join(properties, ",")+`}}`, true)
	require.NoError(t, err)
	bad := s.Check(values)
	require.Len(t, bad.Issues, 500)
	require.LessOrEqual(t, len(bad.Text()), 2<<10)
	require.True(t, strings.HasSuffix(bad.Text(), "…"))
}
