package stub

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// AWS answers the calls of AWS's clients with what a test has scripted.
type AWS struct {
	*httptest.Server

	mu      sync.Mutex
	scripts map[string]Script
	secrets map[string]string
	asked   map[string]int
	closing chan struct{}
}

// Close ends it, with all that hangs.
func (a *AWS) Close() {
	close(a.closing)
	a.Server.Close()
}

// Secrets are the entries of Secrets Manager, as long as nothing else is
// scripted for it.
func (a *AWS) Secrets(entries map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.secrets = entries
}

// getSecret is the operation that reads one.
const getSecret = "secretsmanager.GetSecretValue"

// secret answers a request for an entry.
func (a *AWS) secret(r *http.Request) Script {
	var in struct {
		ID string `json:"SecretId"` //nolint:tagliatelle // AWS's name
	}
	err := json.NewDecoder(r.Body).Decode(&in)
	a.mu.Lock()
	text, there := a.secrets[in.ID]
	a.mu.Unlock()
	if err != nil || !there {
		return Missing("the secret")
	}
	body, err := json.Marshal(map[string]string{"Name": in.ID, "SecretString": text})
	if err != nil {
		return Denied() // texts can be written
	}
	return OK(string(body))
}

// Script is what one operation answers. A negative status answers nothing: the
// request hangs until the client gives up.
type Script struct {
	Status int
	Body   string
}

// Missing, Denied and Hangs are answers of services.
func Missing(what string) Script {
	return Script{http.StatusBadRequest, `{"__type":"com.amazonaws#ResourceNotFoundException","message":"` + what + ` is not there"}`}
}

// Denied is the answer to a role without the right.
func Denied() Script {
	return Script{http.StatusBadRequest, `{"__type":"com.amazonaws#AccessDeniedException","message":"User is not authorized to perform this"}`}
}

// Hangs is no answer.
func Hangs() Script { return Script{Status: -1} }

// OK is a good answer.
func OK(body string) Script { return Script{http.StatusOK, body} }

// NewAWS starts it. What nothing is scripted for is refused.
func NewAWS() *AWS {
	a := &AWS{scripts: map[string]Script{}, asked: map[string]int{}, closing: make(chan struct{})}
	a.Server = httptest.NewServer(a)
	return a
}

// On scripts an operation, as X-Amz-Target names it without its version
// (DynamoDB.GetItem), or as S3 has it (GET bucket). It holds from now on.
func (a *AWS) On(operation string, s Script) *AWS {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scripts[operation] = s
	return a
}

// Asked is how often an operation was called.
func (a *AWS) Asked(operation string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked[operation]
}

// ServeHTTP implements http.Handler.
func (a *AWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := operation(r)
	a.mu.Lock()
	a.asked[name]++
	s, there := a.scripts[name]
	a.mu.Unlock()
	switch {
	case there:
	case name == getSecret:
		s = a.secret(r)
	default:
		s = Script{http.StatusBadRequest, `{"__type":"UnknownOperationException","message":"not scripted: ` + name + `"}`}
	}
	if s.Status < 0 {
		// Only when a request was read whole does the server see its client go.
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-a.closing:
		}
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(s.Status)
	_, _ = w.Write([]byte(s.Body))
}

// operation is the name of a request's: Service.Operation of the JSON protocols,
// else the method and the first part of the path.
func operation(r *http.Request) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		service, op, _ := strings.Cut(target, ".")
		service, _, _ = strings.Cut(service, "_")
		return service + "." + op
	}
	bucket, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if bucket == "" {
		bucket, _, _ = strings.Cut(r.Host, ".")
	}
	return r.Method + " " + bucket
}

// Closed is an address at which nothing listens.
func Closed() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it answers at once
	if err != nil {
		return "", err
	}
	return "http://" + l.Addr().String(), l.Close()
}
