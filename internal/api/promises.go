package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func (s *server) addPromises() {
	add(s, on(http.MethodPost, "/v1/promises/{token}", "settlePromise", "Bring a promise's result; the token is the credential", http.StatusOK), s.settlePromise)
	add(s, on(http.MethodGet, "/v1/promises/{token}/input", "getPromiseInput", "Read the arguments of a promise's call; the token is the credential", http.StatusOK), s.promiseInput)
	add(s, on(http.MethodGet, "/v1/sessions/{id}/promises", "listPromises", "List a session's promises", http.StatusOK, ScopeRead), s.listPromises)
	add(s, on(http.MethodPost, "/v1/sessions/{id}/promises/{promise}", "operatePromise", "Settle a promise in the other side's stead", http.StatusOK, ScopeAdmin), s.operatePromise)
}

// TokenPath carries a promise token.
type TokenPath struct {
	Token string `path:"token"`
}

// promise finds what a token stands for. A token that is none of ours, or of a
// session that is gone, is not found; a good one whose promise is not to be
// seen yet will be soon.
func (s *server) promise(ctx context.Context, token string) (host.Key, *host.Done, host.PromiseRecord, error) {
	unknown := problem(host.CodeNotFound, "there is no such promise")
	claim, ok := s.Keys.Open(token)
	if !ok {
		return host.Key{}, nil, host.PromiseRecord{}, unknown
	}
	d, err := s.Engine.View(ctx, claim.Key)
	switch {
	case notFound(err):
		return claim.Key, nil, host.PromiseRecord{}, unknown
	case err != nil:
		return claim.Key, nil, host.PromiseRecord{}, err
	case d.Head.Inc != claim.Inc:
		return claim.Key, nil, host.PromiseRecord{}, unknown
	}
	p, err := s.Engine.Promise(ctx, claim.Key, &d, claim.Promise)
	if notFound(err) {
		return claim.Key, nil, p, problem(codeUnavailable, "the promise is not known yet: send it again")
	}
	return claim.Key, &d, p, err
}

type settleInput struct {
	TokenPath
	Body SettlePromise
}

// byToken is who settles a promise with its token: whoever was given it.
const byToken = "token"

func (s *server) settlePromise(ctx context.Context, in *settleInput) (*reply[Promise], error) {
	key, _, p, err := s.promise(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	return s.settleAs(ctx, key, p.ID, &in.Body, host.Asked{Actor: host.Actor{ID: byToken}, Via: "webhook"})
}

// settleAs settles a promise and shows it.
func (s *server) settleAs(ctx context.Context, key host.Key, id ident.PromiseID, b *SettlePromise, asked host.Asked) (*reply[Promise], error) {
	sp := &host.Spill{}
	cmd := &host.SettlePromise{Promise: id, Status: b.Status, Asked: asked}
	value, reason := said(b.Value), said(b.Error)
	switch {
	case b.Status == host.StatusResolved && reason != "":
		return nil, unfit("body.error", "a promise that is resolved has no error")
	case b.Status == host.StatusFailed && value != "":
		return nil, unfit("body.value", "a promise that has failed has no value")
	}
	sp.Text(&cmd.Value, value)
	sp.Text(&cmd.Error, reason)
	d, err := s.Engine.Do(ctx, key, sp.Prepare(cmd))
	if err != nil {
		return nil, err
	}
	p, err := s.Engine.Promise(ctx, key, &d, id)
	if err != nil {
		return nil, err
	}
	v := s.view(ctx, key)
	return answer(http.StatusOK, v.promise(p)), v.err
}

// said is what the model reads of a value: a string as it is, anything else as
// JSON.
func said(v Value) string {
	if len(v) == 0 || string(v) == "null" {
		return ""
	}
	var text string
	if v[0] == '"' && json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

func (s *server) promiseInput(ctx context.Context, in *TokenPath) (*reply[Value], error) {
	key, d, p, err := s.promise(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	args, err := s.Engine.PromiseInput(ctx, key, d, p)
	if err != nil {
		return nil, err
	}
	v := s.view(ctx, key)
	text := v.read(args, int(args.Bytes()))
	if v.err != nil {
		return nil, v.err
	}
	if !json.Valid([]byte(text)) {
		text = "{}" // a call without arguments
	}
	return answer(http.StatusOK, Value(text)), nil
}

type promisesInput struct {
	SessionPath
	Listing
	Status string `query:"status" enum:"pending,resolved,failed,cancelled,expired"`
}

// promisesAt is where a list of promises goes on.
type promisesAt struct {
	After ident.PromiseID `json:"a"`
}

func (s *server) listPromises(ctx context.Context, in *promisesInput) (*reply[Page[Promise]], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	p := newPager[Promise](s, r)
	var at promisesAt
	if err := s.open(r, &at); err != nil {
		return nil, err
	}
	v := s.view(ctx, key)
	for scanned := 0; scanned < scanMost; scanned += scanPage {
		found, err := s.Engine.Promises(ctx, key, at.After, scanPage)
		if err != nil {
			return nil, err
		}
		for _, rec := range found {
			if in.Status == "" || rec.Status == in.Status {
				if p.full() {
					return p.after(at)
				}
				fits, err := p.add(v.promise(rec))
				if err = firstOf(err, v.err); err != nil {
					return nil, err
				}
				if !fits {
					return p.after(at)
				}
			}
			at.After = rec.ID
		}
		if len(found) < scanPage {
			return p.end(), nil
		}
	}
	return p.after(at)
}

type operateInput struct {
	SessionPath
	Promise string `path:"promise" pattern:"^promise_[1-9][0-9]*$" patternDescription:"promise_<n>" doc:"Id of the promise."`
	Body    SettlePromise
}

func (s *server) operatePromise(ctx context.Context, in *operateInput) (*reply[Promise], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	id, err := ident.ParsePromiseID(in.Promise)
	if err != nil {
		return nil, invalidAt("path.promise", "a promise id, promise_<n>")
	}
	asked, err := s.asked(requestOf(ctx), "")
	if err != nil {
		return nil, err
	}
	return s.settleAs(ctx, key, id, &in.Body, asked)
}
