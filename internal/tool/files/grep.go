package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
)

// Bounds of one search.
const (
	grepMatches  = 1000
	grepFiles    = 5000
	grepBytes    = 64 << 20
	grepOutput   = 60 << 10 // bytes of the result
	grepLineMax  = 300      // bytes shown of a line
	grepRegexMax = 1000     // bytes of the pattern
)

const (
	grepText       = "Search the text of files by a regular expression (RE2 syntax), line by line. Returns path:line: text, one match a line. path is a file or a folder; without it all files are searched. Files that are not text are skipped."
	grepParameters = `{"type":"object","properties":{"pattern":{"type":"string","minLength":1},"path":{"type":"string"}},"required":["pattern"],"additionalProperties":false}`
)

type grepArguments struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path"`
}

// search is one files.grep in progress.
type search struct {
	re      *regexp.Regexp
	out     strings.Builder
	matches int
	files   int
	bytes   int64
	cut     string
}

func (f family) grep(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	a, m, err := arguments[grepArguments](call)
	if err != nil {
		return host.ToolResult{}, err
	}
	if len(a.Pattern) > grepRegexMax {
		return host.ToolResult{}, refusedError(fmt.Sprintf("the pattern has %d bytes, allowed are %d", len(a.Pattern), grepRegexMax))
	}
	re, err := regexp.Compile(a.Pattern)
	if err != nil {
		return host.ToolResult{}, refusedError(err.Error())
	}
	places, err := m.folders(a.Path)
	if err != nil {
		return host.ToolResult{}, err
	}
	s := &search{re: re}
	for _, p := range places {
		if err := f.searchPlace(ctx, call, p, s); err != nil {
			return host.ToolResult{}, err
		}
	}
	switch {
	case s.files == 0 && len(places) == 1 && places[0].path != "":
		return host.ToolResult{}, refusedError("no such file or folder")
	case s.matches == 0 && s.cut == "":
		return host.ToolResult{Text: "[no matches]"}, nil
	}
	return host.ToolResult{Text: s.out.String() + s.cut}, nil
}

func (f family) searchPlace(ctx context.Context, call host.ToolCall, p place, s *search) error {
	visit := func(e Entry) (bool, error) {
		if s.cut != "" {
			return false, nil
		}
		s.files++
		s.bytes += e.Size
		if s.files > grepFiles || s.bytes > grepBytes {
			s.cut = fmt.Sprintf("[stopped after %d files; give a path]\n", s.files-1)
			return false, nil
		}
		data, err := f.store.ReadFile(ctx, call.Key, p.workspace.Name, e.Path)
		if errors.Is(err, host.ErrNotFound) {
			return true, nil // gone since it was listed
		}
		if err != nil {
			return false, err
		}
		return s.file(ctx, p.prefix+e.Path, data)
	}
	if p.path != "" {
		st, err := f.store.StatFile(ctx, call.Key, p.workspace.Name, p.path)
		if err == nil {
			_, err = visit(Entry{Path: p.path, Size: st.Size})
			return err
		}
		if !errors.Is(err, host.ErrNotFound) {
			return err
		}
	}
	return f.walk(ctx, call, p, folder(p.path), visit)
}

// file searches one file. It says whether there is room for more.
func (s *search) file(ctx context.Context, name string, data []byte) (bool, error) {
	if binary(data) {
		return true, nil
	}
	for n := 1; len(data) > 0; n++ {
		if n%1000 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		if !s.re.Match(line) {
			continue
		}
		s.matches++
		text := blob.Cut(strings.TrimSuffix(string(line), "\r"), grepLineMax)
		if len(text) < len(line)-1 {
			text += "…"
		}
		row := fmt.Sprintf("%s:%d: %s\n", visible(name), n, text)
		if s.matches > grepMatches || s.out.Len()+len(row) > grepOutput {
			s.cut = fmt.Sprintf("[stopped after %d matches; use a narrower pattern or path]\n", s.matches-1)
			return false, nil
		}
		s.out.WriteString(row)
	}
	return true, nil
}
