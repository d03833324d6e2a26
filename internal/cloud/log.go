package cloud

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure/internal/env"
)

// lines is a writer that several write whole lines to.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(line)
}

// tagging is a slog.Handler that says which invocation a line is of: the engine
// does not know.
type tagging struct {
	slog.Handler

	request *atomic.Pointer[string]
}

// Handle implements slog.Handler.
func (h tagging) Handle(ctx context.Context, r slog.Record) error {
	if id := h.request.Load(); id != nil {
		r.AddAttrs(slog.String("requestId", *id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h tagging) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tagging{h.Handler.WithAttrs(attrs), h.request}
}

// WithGroup implements slog.Handler.
func (h tagging) WithGroup(name string) slog.Handler {
	return tagging{h.Handler.WithGroup(name), h.request}
}

// metrics writes numbers into the log, in CloudWatch's embedded metric format:
// nothing is called, and what reads the log makes metrics of them. The
// function's name is their one dimension.
type metrics struct {
	out      io.Writer
	function string
}

func newMetrics(out io.Writer, function string) *metrics { return &metrics{out, function} }

type metricDirective struct {
	Timestamp         int64          `json:"Timestamp"`         //nolint:tagliatelle // CloudWatch's names
	CloudWatchMetrics []metricsOfOne `json:"CloudWatchMetrics"` //nolint:tagliatelle // CloudWatch's names
}

type metricsOfOne struct {
	Namespace  string       `json:"Namespace"`  //nolint:tagliatelle // CloudWatch's names
	Dimensions [][]string   `json:"Dimensions"` //nolint:tagliatelle // CloudWatch's names
	Metrics    []metricName `json:"Metrics"`    //nolint:tagliatelle // CloudWatch's names
}

type metricName struct {
	Name string `json:"Name"` //nolint:tagliatelle // CloudWatch's names
	Unit string `json:"Unit"` //nolint:tagliatelle // CloudWatch's names
}

// count writes one number.
func (m *metrics) count(name string, n int) {
	line := map[string]any{
		"_aws": metricDirective{
			Timestamp: time.Now().UnixMilli(),
			CloudWatchMetrics: []metricsOfOne{{
				Namespace: env.MetricNamespace, Dimensions: [][]string{{env.DimensionFunction}}, Metrics: []metricName{{name, "Count"}},
			}},
		},
		env.DimensionFunction: m.function, name: n,
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // a map of these is written for sure
	}
	_, _ = m.out.Write(append(text, '\n')) // a log that cannot be written to has nobody to tell
}
