package e2e

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// outside is a tool of the suite's own, at a server of its own.
type outside struct {
	name  string
	calls chan outsideCall

	mu    sync.Mutex
	reply func(http.ResponseWriter, outsideCall)
}

// outsideCall is one call as it came.
type outsideCall struct {
	OperationID string
	Attempt     int
	Session     string
	Run         string
	Call        string
	Tool        string
	Actor       struct{ ID string }
	Arguments   map[string]any
	Promise     struct{ Token, SettleURL string }
	Deadline    string

	key    string          // its Idempotency-Key
	gone   <-chan struct{} // closed when the caller has gone
	lookup string          // the operation that is asked for, in a GET
}

// outside sets a tool up. Without a reply set it does not answer.
func (w *world) outside(name string, changes object) *outside {
	w.callsBack()
	o := &outside{name: name + "-" + strings.ToLower(rand.Text()[:8]), calls: make(chan outsideCall, 100)}
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the caller has gone
		}
		c := outsideCall{key: r.Header.Get("Idempotency-Key"), gone: r.Context().Done(), lookup: r.URL.Query().Get("operation")}
		if c.lookup != "" {
			body = []byte(c.lookup) // a GET has no body to sign
		} else {
			if err := json.Unmarshal(body, &c); err != nil {
				w.Errorf("the call cannot be read: %v: %s", err, body)
			}
			o.calls <- c
		}
		if !signed(r.Header.Get("X-Perdure-Signature"), body) {
			w.Errorf("the signature %q is not that of %s", r.Header.Get("X-Perdure-Signature"), body)
		}
		o.mu.Lock()
		reply := o.reply
		o.mu.Unlock()
		if reply != nil {
			reply(rw, c)
			return
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	w.Cleanup(server.Close)
	w.Cleanup(func() { close(over) })
	definition := object{
		"target": "http", "url": server.URL + "/call", "description": "Does what the suite wants.", "parameters": object{"type": "object"},
		"kind": "action", "retrySafe": false, "parallel": true, "completion": "joined", "secret": secretName,
	}
	maps.Copy(definition, changes)
	w.ask("PUT", "/v1/tools/"+o.name, definition).is(201)
	w.Cleanup(func() {
		// A killed server is not there to be tidied.
		if !w.Failed() && w.start == nil {
			w.ask("DELETE", "/v1/tools/"+o.name, nil).is(204)
		}
	})
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

// signed checks t=<unix>,v1=<hex hmac of "t.body"> over the bytes as they came.
func signed(header string, body []byte) bool {
	at, mac, found := strings.Cut(strings.TrimPrefix(header, "t="), ",v1=")
	if !found {
		return false
	}
	h := hmac.New(sha256.New, []byte(secretValue))
	h.Write([]byte(at + "."))
	h.Write(body)
	got, err := hex.DecodeString(mac)
	return err == nil && hmac.Equal(got, h.Sum(nil))
}

// listed says whether a list has an item of this id.
func (w *world) listed(path, id string) bool {
	w.Helper()
	found := false
	w.pages(path, func(item map[string]any) {
		found = found || item["id"] == id && (item["sessionId"] == nil || item["sessionId"] == w.session)
	})
	return found
}

// pages reads a list to its end.
func (w *world) pages(path string, each func(map[string]any)) {
	w.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	for cursor := ""; ; {
		to := path
		if cursor != "" {
			to += join + "cursor=" + cursor
		}
		page := read[struct {
			Items []map[string]any
			Next  string
		}](w.ask("GET", to, nil).is(200))
		for _, item := range page.Items {
			each(item)
		}
		if cursor = page.Next; cursor == "" {
			return
		}
		require.Less(w, len(cursor), 2000)
	}
}
