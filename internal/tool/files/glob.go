package files

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// Bounds of a pattern and of what it may look at.
const (
	patternMax  = 512    // bytes
	globVisits  = 50_000 // files looked at
	globStarred = 8      // ** in one pattern
)

const (
	globText = "Find files by name: one path a line. * matches within one part of a path, ** any number of parts, ? one character, [a-z] a set. " +
		"A pattern covers the whole path: **/*.md finds every Markdown file, docs/*.md only those directly in docs."
	globParameters = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1}},"required":["pattern"],"additionalProperties":false}`
)

type globArguments struct {
	Pattern string `json:"pattern"`
}

func (f family) glob(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	a, m, err := arguments[globArguments](call)
	if err != nil {
		return host.ToolResult{}, err
	}
	pattern, err := parsePattern(a.Pattern)
	if err != nil {
		return host.ToolResult{}, err
	}
	var b strings.Builder
	found, seen, cut := 0, 0, ""
	for _, p := range m.roots() {
		prefix, possible := pattern.prefix(p.prefix)
		if !possible || cut != "" {
			continue
		}
		err := f.walk(ctx, call, p, prefix, func(e Entry) (bool, error) {
			if seen++; seen > globVisits {
				cut = fmt.Sprintf("[stopped after %d files; use a pattern with a longer fixed beginning]\n", globVisits)
				return false, nil
			}
			if !pattern.match(p.prefix + e.Path) {
				return true, nil
			}
			if found++; found > listMax {
				cut = fmt.Sprintf("[stopped after %d matches; use a narrower pattern]\n", listMax)
				return false, nil
			}
			b.WriteString(visible(p.prefix+e.Path) + "\n")
			return true, nil
		})
		if err != nil {
			return host.ToolResult{}, err
		}
	}
	if found == 0 && cut == "" {
		return host.ToolResult{Text: "[no matches]"}, nil
	}
	return host.ToolResult{Text: b.String() + cut}, nil
}

// globPattern is a pattern by its segments.
type globPattern []string

func parsePattern(text string) (globPattern, error) {
	text = strings.TrimPrefix(text, "./")
	if text == "" || len(text) > patternMax {
		return nil, refusedError(fmt.Sprintf("the pattern has %d bytes, allowed are 1 to %d", len(text), patternMax))
	}
	pattern := globPattern(strings.Split(text, "/"))
	starred := 0
	for _, segment := range pattern {
		if segment == "" || segment == ".." {
			return nil, refusedError("the pattern must be relative, without empty parts or ..")
		}
		if segment == "**" {
			starred++
			continue
		}
		if _, err := path.Match(segment, ""); err != nil {
			return nil, refusedError("the pattern has a set or an escape that does not end")
		}
	}
	if starred > globStarred {
		return nil, refusedError(fmt.Sprintf("the pattern has %d **, allowed are %d", starred, globStarred))
	}
	return pattern, nil
}

// prefix is the part of a workspace that a match can be in, and whether the
// workspace can hold one at all.
func (g globPattern) prefix(mount string) (string, bool) {
	var fixed []string
	for _, segment := range g[:len(g)-1] {
		if strings.ContainsAny(segment, `*?[\`) {
			break
		}
		fixed = append(fixed, segment)
	}
	text := ""
	if len(fixed) > 0 {
		text = strings.Join(fixed, "/") + "/"
	}
	switch {
	case strings.HasPrefix(text, mount):
		return text[len(mount):], true
	default:
		return "", text == ""
	}
}

func (g globPattern) match(name string) bool {
	return matchSegments(g, strings.Split(name, "/"))
}

// matchSegments matches ** by trying every length; the number of ** in a
// pattern and of segments in a path is bounded, and a later ** never needs an
// earlier one to be tried again, so only the last is kept to go back to.
func matchSegments(pattern, name []string) bool {
	p, n, backP, backN := 0, 0, -1, 0
	for n < len(name) {
		if p < len(pattern) {
			if pattern[p] == "**" {
				backP, backN = p, n
				p++
				continue
			}
			if ok, err := path.Match(pattern[p], name[n]); err == nil && ok {
				p, n = p+1, n+1
				continue
			}
		}
		if backP < 0 {
			return false
		}
		backN++
		p, n = backP+1, backN
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}
