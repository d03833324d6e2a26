package files

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// Bounds of one files.read. The text with its header fits in what the model
// reads of a result, so the header is always true.
const (
	readLines = 2000
	readBytes = 60 << 10
)

const (
	readText = "Read a text file. Returns the content as it is; if it is cut, a first line in brackets says which lines follow and the offset to go on with. " +
		"offset is the first line wanted (1 is the first of the file), limit the number of lines (at most 2000)."
	readParameters = `{"type":"object","properties":{"path":{"type":"string","minLength":1},"offset":{"type":"integer","minimum":1},"limit":{"type":"integer","minimum":1,"maximum":2000}},"required":["path"],"additionalProperties":false}`
)

type readArguments struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int64  `json:"limit"`
}

func (f family) read(ctx context.Context, call host.ToolCall) (host.ToolResult, error) {
	a, m, err := arguments[readArguments](call)
	if err != nil {
		return host.ToolResult{}, err
	}
	p, err := m.file(a.Path)
	if err != nil {
		return host.ToolResult{}, err
	}
	data, err := f.store.ReadFile(ctx, call.Key, p.workspace.Name, p.path)
	if err != nil {
		return host.ToolResult{}, err
	}
	if binary(data) {
		return tool.Failed(fmt.Sprintf("%s is not text (%d bytes, %s)", visible(p.String()), len(data), blob.Sum(data))), nil
	}
	text, err := window(string(data), max(a.Offset, 1), a.Limit)
	return host.ToolResult{Text: text}, err
}

// binary tells bytes that are no text.
func binary(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 || !utf8.Valid(data)
}

// window cuts lines out of a text. limit 0 is the most there may be.
func window(text string, offset, limit int64) (string, error) {
	if limit <= 0 || limit > readLines {
		limit = readLines
	}
	total := countLines(text)
	if offset > total && (total > 0 || offset > 1) {
		return "", refusedError(fmt.Sprintf("offset %d is past the end: the file has %d lines", offset, total))
	}
	rest := text
	for n := int64(1); n < offset; n++ {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	end, last := 0, offset-1
	for last < min(total, offset-1+limit) {
		next := len(rest)
		if i := strings.IndexByte(rest[end:], '\n'); i >= 0 {
			next = end + i + 1
		}
		if next > readBytes {
			break
		}
		end = next
		last++
	}
	switch {
	case last < offset && total > 0:
		cut := blob.Cut(rest, readBytes)
		header := fmt.Sprintf("[line %d of %d, its first %d bytes: it is longer than can be shown", offset, total, len(cut))
		if offset < total {
			header += fmt.Sprintf("; go on with offset %d", offset+1)
		}
		return header + "]\n" + cut, nil
	case last < total:
		return fmt.Sprintf("[lines %d to %d of %d; go on with offset %d]\n", offset, last, total, last+1) + rest[:end], nil
	case offset > 1:
		return fmt.Sprintf("[lines %d to %d of %d]\n", offset, last, total) + rest[:end], nil
	}
	return rest[:end], nil
}

func countLines(text string) int64 {
	n := int64(strings.Count(text, "\n"))
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
