package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// front is what the events of an HTTP API and of a function URL have in common:
// all of it, but for types.
type front struct {
	method, rawPath, rawQuery string
	host, sourceIP            string
	headers                   map[string]string
	cookies                   []string
	body                      string
	base64                    bool
}

// ofGateway reads the event of an HTTP API (payload format 2.0). A stage that
// has a name of its own begins the path.
func ofGateway(e *events.APIGatewayV2HTTPRequest) front {
	path := e.RawPath
	if stage := e.RequestContext.Stage; stage != "" && stage != "$default" {
		if rest, ok := strings.CutPrefix(path, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			path = rest
		}
	}
	return front{
		method: e.RequestContext.HTTP.Method, rawPath: path, rawQuery: e.RawQueryString, host: e.RequestContext.DomainName,
		sourceIP: e.RequestContext.HTTP.SourceIP, headers: e.Headers, cookies: e.Cookies, body: e.Body, base64: e.IsBase64Encoded,
	}
}

// ofURL reads the event of a function URL.
func ofURL(e *events.LambdaFunctionURLRequest) front {
	return front{
		method: e.RequestContext.HTTP.Method, rawPath: e.RawPath, rawQuery: e.RawQueryString, host: e.RequestContext.DomainName,
		sourceIP: e.RequestContext.HTTP.SourceIP, headers: e.Headers, cookies: e.Cookies, body: e.Body, base64: e.IsBase64Encoded,
	}
}

// request makes the request that the client sent: the same path, query and
// header, and the same bytes of a body. A header that came several times has
// come in one, with commas: that is how the gateway hands it on.
func (f *front) request(ctx context.Context) (*http.Request, error) {
	body := []byte(f.body)
	if f.base64 {
		var err error
		if body, err = base64.StdEncoding.DecodeString(f.body); err != nil {
			return nil, fmt.Errorf("the event's body is no base64: %w", err)
		}
	}
	r := &http.Request{
		Method: f.method, URL: f.url(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, len(f.headers)),
		Host: f.host, RemoteAddr: net.JoinHostPort(f.sourceIP, "0"), Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	for name, value := range f.headers {
		r.Header.Add(name, value) // whatever the case of its letters
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
		r.Header.Del("Host")
	}
	if len(f.cookies) > 0 {
		r.Header.Set("Cookie", strings.Join(f.cookies, "; "))
	}
	r.RequestURI = r.URL.RequestURI()
	return r.WithContext(ctx), nil
}

// url is the request's. A function URL hands on the path as it was sent; an
// HTTP API may have unescaped it, and what cannot be unescaped once more is
// taken as it is.
func (f *front) url() *url.URL {
	u := &url.URL{Path: f.rawPath, RawQuery: f.rawQuery}
	if path, err := url.PathUnescape(f.rawPath); err == nil && escaped(f.rawPath) {
		u.Path, u.RawPath = path, f.rawPath
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u
}

// escaped says whether a path may be one as clients send it: visible ASCII.
func escaped(path string) bool {
	for i := range len(path) {
		if c := path[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
