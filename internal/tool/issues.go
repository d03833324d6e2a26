package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
)

// Bounds of what is said about invalid arguments.
const (
	issuesMax     = 2 << 10 // bytes
	issueValueMax = 160     // bytes of a rule's value
)

// Invalid says what is wrong with a value: where, and by which rule. It
// repeats the schema, never the value, so it may be shown and stored anywhere.
type Invalid struct {
	Issues []string
}

// Text is what the model or a person reads, at most 2 KiB.
func (e *Invalid) Text() string {
	text := strings.Join(e.Issues, "; ")
	if len(text) > issuesMax {
		text = blob.Cut(text, issuesMax-len("…")) + "…"
	}
	return text
}

// propertyIssues names what is missing, what is too much, and every property
// that is wrong by itself.
func (s *Schema) propertyIssues(object map[string]any) []string {
	var issues []string
	for _, name := range s.whole.Schema().Required {
		if _, there := object[name]; !there {
			issues = append(issues, "missing: "+name)
		}
	}
	names := make([]string, 0, len(object))
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	known, _ := s.tree["properties"].(map[string]any)
	unknown := 0
	for _, name := range names {
		err := judge(s.parts, map[string]any{name: object[name]})
		if err == nil {
			continue
		}
		if _, there := known[name]; !there && strings.Contains(err.Error(), "unexpected additional properties") {
			unknown++
			continue
		}
		issues = append(issues, s.issue(err))
	}
	if unknown > 0 {
		allowed := make([]string, 0, len(known))
		for name := range known {
			allowed = append(allowed, name)
		}
		slices.Sort(allowed)
		issues = append(issues, fmt.Sprintf("%d unknown properties, known are: %s", unknown, strings.Join(allowed, ", ")))
	}
	return issues
}

var keywordOf = regexp.MustCompile(`^([$a-zA-Z]+)(?:\[[^\]]*\])?:`)

// issue turns the library's error into a path, a rule and the rule's value.
// The error's own words are not used: they repeat the value that was checked.
func (s *Schema) issue(err error) string {
	rest, at := err.Error(), ""
	var path strings.Builder
	for {
		next, tail, ok := s.step(rest)
		if !ok {
			break
		}
		if below, inside := strings.CutPrefix(next, at+"/"); inside {
			path.WriteString(valuePath(below))
		}
		at, rest = next, tail
	}
	where := strings.TrimPrefix(path.String(), ".")
	if where == "" {
		where = "the whole"
	}
	keyword := "a rule"
	if m := keywordOf.FindStringSubmatch(rest); m != nil {
		keyword = m[1]
	} else if strings.HasPrefix(rest, "unexpected additional properties") {
		keyword = "additionalProperties"
	}
	node, _ := s.nodes[at].(map[string]any)
	value, there := node[keyword]
	if !there {
		return where + ": breaks " + keyword
	}
	text := Canonical(value)
	if len(text) > issueValueMax {
		text = blob.Cut(text, issueValueMax) + "…"
	}
	return where + ": breaks " + keyword + " " + text
}

// step takes one "validating <path>: " off. A path may hold a colon itself, so
// only one that is a subschema's counts.
func (s *Schema) step(text string) (at, rest string, ok bool) {
	text, ok = strings.CutPrefix(text, "validating ")
	if !ok {
		return "", "", false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], ": ")
		if i < 0 {
			return "", "", false
		}
		at = text[:from+i]
		if at == "root" {
			at = ""
		}
		if _, there := s.nodes[at]; there {
			return at, text[from+i+2:], true
		}
		from += i + 2
	}
}

// valuePath translates steps in a schema to steps in the value.
func valuePath(steps string) string {
	var b strings.Builder
	parts := strings.Split(steps, "/")
	for i := 0; i < len(parts); i++ {
		switch parts[i] {
		case "properties":
			if i++; i < len(parts) {
				b.WriteString("." + unescapePointer(parts[i]))
			}
		case "patternProperties":
			i++
			b.WriteString(".*")
		case "additionalProperties", "unevaluatedProperties", "propertyNames":
			b.WriteString(".*")
		case "items", "prefixItems", "contains", "additionalItems", "unevaluatedItems":
			b.WriteString("[]")
		}
	}
	return b.String()
}
