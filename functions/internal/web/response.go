package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// buffered keeps an answer until it is whole.
type buffered struct {
	header http.Header
	sent   http.Header
	status int
	body   bytes.Buffer
}

func newBuffered() *buffered { return &buffered{header: http.Header{}} }

// Header implements http.ResponseWriter.
func (b *buffered) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(status int) {
	if b.status == 0 && status >= http.StatusOK {
		b.status, b.sent = status, b.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (b *buffered) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// answerMost is the largest answer that an invocation may give, in bytes, less
// some for what is round it.
const answerMost = 6<<20 - 64<<10

func (b *buffered) response() *events.APIGatewayV2HTTPResponse {
	b.WriteHeader(http.StatusOK)
	body, coded := encoded(b.body.Bytes())
	if len(body) > answerMost {
		return tooLarge()
	}
	out := &events.APIGatewayV2HTTPResponse{StatusCode: b.status, Body: body, IsBase64Encoded: coded}
	out.Headers, out.Cookies = flat(b.sent)
	return out
}

// tooLarge stands for an answer that Lambda would not let through. The API's
// pages end far below it.
func tooLarge() *events.APIGatewayV2HTTPResponse {
	return &events.APIGatewayV2HTTPResponse{
		StatusCode: http.StatusInternalServerError, Headers: map[string]string{"Content-Type": "application/problem+json"},
		Body: `{"type":"urn:perdure:problem:internal","title":"Something went wrong here","status":500,"code":"internal","detail":"the answer is larger than a function may give"}`,
	}
}

// encoded is a body as an event carries it. Text rides as it is, unless escaping
// it would take more room than base64.
func encoded(body []byte) (text string, coded bool) {
	if utf8.Valid(body) {
		escapes := bytes.Count(body, []byte(`"`)) + bytes.Count(body, []byte(`\`)) + bytes.Count(body, []byte("\n"))
		controls := 0
		for _, c := range body {
			if c < ' ' && c != '\n' {
				controls++
			}
		}
		if escapes+5*controls <= len(body)/3 {
			return string(body), false
		}
	}
	return base64.StdEncoding.EncodeToString(body), true
}

// flat is a header with one value a name, as events have it; cookies are apart.
func flat(header http.Header) (one map[string]string, cookies []string) {
	one = make(map[string]string, len(header))
	for name, values := range header {
		switch name {
		case "Set-Cookie":
			cookies = values
		case "Content-Length": // the gateway counts
		default:
			one[name] = strings.Join(values, ", ")
		}
	}
	return one, cookies
}

// streamed hands an answer on as it is written.
type streamed struct {
	header http.Header
	cancel context.CancelFunc
	to     *io.PipeWriter
	from   *io.PipeReader

	once  sync.Once
	begun chan events.LambdaFunctionURLStreamingResponse
	ended chan struct{}
}

func newStreamed(cancel context.CancelFunc) *streamed {
	s := &streamed{header: http.Header{}, cancel: cancel, begun: make(chan events.LambdaFunctionURLStreamingResponse, 1), ended: make(chan struct{})}
	s.from, s.to = io.Pipe()
	return s
}

// Header implements http.ResponseWriter.
func (s *streamed) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *streamed) WriteHeader(status int) {
	if status < http.StatusOK {
		return
	}
	s.once.Do(func() {
		head := events.LambdaFunctionURLStreamingResponse{StatusCode: status, Body: body{s}}
		head.Headers, head.Cookies = flat(s.header)
		s.begun <- head
	})
}

// Write implements http.ResponseWriter. It returns when the bytes are on their
// way; that nobody takes them is an error.
func (s *streamed) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	if len(p) == 0 {
		return 0, nil
	}
	return s.to.Write(p)
}

// FlushError is for http.ResponseController: nothing is held back.
func (s *streamed) FlushError() error {
	s.WriteHeader(http.StatusOK)
	return nil
}

// errCut is how an answer ends that broke off: it must not look like a whole
// one.
var errCut = errors.New("the answer broke off")

// end closes the answer. It stands in a defer: a panic of the handler ends the
// answer, and not the process, which has other work to do.
func (s *streamed) end() {
	v := recover()
	s.WriteHeader(http.StatusInternalServerError)
	if v != nil {
		_ = s.to.CloseWithError(errCut)
	} else {
		_ = s.to.Close()
	}
	s.cancel()
	close(s.ended)
}

func (s *streamed) response() *events.LambdaFunctionURLStreamingResponse {
	head := <-s.begun
	return &head
}

// body is what the runtime reads. It closes it when it is done with the answer,
// and also when it could not send it: then the handler has nobody to write for.
type body struct{ s *streamed }

func (b body) Read(p []byte) (int, error) { return b.s.from.Read(p) }

// Close ends the handler, and waits for it: the next invocation is to find no
// work of the one before.
func (b body) Close() error {
	b.s.cancel()
	err := b.s.from.Close()
	<-b.s.ended
	return err
}
