package outside

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Call is what a call says of itself to whoever does it, as JSON.
type Call struct {
	// V is the version of this form, where it may be read by a build that is
	// not of the day: in a queue, in a function.
	V           int             `json:"v,omitempty"`
	OperationID string          `json:"operationId"`
	Attempt     int             `json:"attempt"`
	Tenant      ident.TenantID  `json:"tenant,omitempty"`
	Session     ident.SessionID `json:"session"`
	Run         string          `json:"run"`
	Call        string          `json:"call"`
	Tool        string          `json:"tool"`
	Actor       Actor           `json:"actor"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	// InputURL is where the arguments are read when they are not here.
	InputURL string        `json:"inputUrl,omitempty"`
	Promise  *PromiseToken `json:"promise,omitempty"`
	Deadline string        `json:"deadline,omitempty"`
}

// Actor is who wanted it.
type Actor struct {
	ID string `json:"id"`
}

// PromiseToken is what settles the call's promise, and the credential for it.
type PromiseToken struct {
	Token     string `json:"token"`
	SettleURL string `json:"settleUrl,omitempty"`
}

// NewCall describes a call. settle returns where a promise's token is settled,
// empty where the server does not know its own address; may be nil.
func NewCall(call host.ToolCall, settle func(token string) string) Call {
	c := Call{
		OperationID: call.Operation, Attempt: call.Attempt, Session: call.Key.Session, Run: call.Run.String(), Call: call.Call.String(),
		Tool: call.Tool, Actor: Actor{call.Actor.ID}, Arguments: json.RawMessage(call.Arguments), Deadline: timestamp(call.Deadline),
	}
	if call.Token != "" {
		c.Promise = &PromiseToken{Token: call.Token}
		if settle != nil {
			c.Promise.SettleURL = settle(call.Token)
		}
	}
	return c
}

// JSON is its text.
func (c *Call) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c); err != nil {
		return nil, &host.Fault{Class: host.ClassInvalid, Message: "the call cannot be encoded", Err: err}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func timestamp(at ident.Instant) string {
	if at == 0 {
		return ""
	}
	return time.UnixMilli(int64(at)).UTC().Format("2006-01-02T15:04:05.000Z")
}
