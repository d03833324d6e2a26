package shows

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/perdure/perdure/internal/api"
)

// outside is a tool at a server of the test's own.
type outside struct {
	name  string
	calls chan outsideCall

	mu    sync.Mutex
	reply func(http.ResponseWriter, outsideCall)
}

// outsideCall is one call as it came.
type outsideCall struct {
	Session, Run, Call string
	Arguments          map[string]any
	InputURL           string
	Promise            struct{ Token, SettleURL string }
}

// tool defines a tool under a name of its own, and returns that.
func (w *world) tool(name string, definition object) string {
	w.Helper()
	name += "-" + strings.ToLower(rand.Text()[:8])
	whole := object{"description": "Does what the test wants.", "parameters": object{"type": "object"}, "kind": "read", "retrySafe": false, "parallel": true}
	maps.Copy(whole, definition)
	w.ask(http.MethodPut, "/v1/tools/"+name, whole).is(http.StatusCreated)
	return name
}

// outside sets up a tool that is reached by HTTP.
func (w *world) outside(name string, changes object) *outside {
	w.Helper()
	o := &outside{calls: make(chan outsideCall, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		var c outsideCall
		if err := json.Unmarshal(body, &c); err != nil {
			w.Errorf("the call cannot be read: %v: %s", err, body)
		}
		o.calls <- c
		o.mu.Lock()
		reply := o.reply
		o.mu.Unlock()
		reply(rw, c)
	}))
	w.Cleanup(server.Close)
	definition := object{"target": "http", "url": server.URL + "/call", "completion": "joined"}
	maps.Copy(definition, changes)
	o.name = w.tool(name, definition)
	return o
}

// answers sets how calls are answered from now on.
func (o *outside) answers(reply func(http.ResponseWriter, outsideCall)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reply = reply
}

// says answers with a status and JSON.
func says(status int, body any) func(http.ResponseWriter, outsideCall) {
	return func(rw http.ResponseWriter, _ outsideCall) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(body) // the caller may have gone
	}
}

// current is a run as it is now.
func (w *world) current(run string) api.Run {
	w.Helper()
	return read[api.Run](w.get("/runs/" + run).is(http.StatusOK))
}
