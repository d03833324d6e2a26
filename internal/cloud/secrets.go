package cloud

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

const (
	// secretFresh is how long a secret is good: so long after it was changed
	// the old one may still be used.
	secretFresh = 5 * ident.Minute
	// secretWithin is what reading one may take.
	secretWithin = 5 * time.Second
	// secretsMost bounds what is remembered; past it all is forgotten.
	secretsMost = 1024

	derivedBytes = 32
	// secretLeast is how long a key's secret is at least, in bytes: shorter ones
	// are no secrets.
	secretLeast = 32
)

// cachedSecrets reads secrets and remembers them for a while. Nothing but success is
// remembered, so that what an operator puts right is right at once.
type cachedSecrets struct {
	from Secrets
	now  func() ident.Instant

	mu    sync.Mutex
	known map[string]knownSecret
}

type knownSecret struct {
	text string
	at   ident.Instant
}

func newCachedSecrets(from Secrets, now func() ident.Instant) *cachedSecrets {
	return &cachedSecrets{from: from, now: now, known: map[string]knownSecret{}}
}

// Secret implements Secrets.
func (c *cachedSecrets) Secret(ctx context.Context, name string) (string, error) {
	c.mu.Lock()
	have, there := c.known[name]
	c.mu.Unlock()
	now := c.now()
	if there && now < have.at.Add(secretFresh) {
		return have.text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, secretWithin)
	defer cancel()
	text, err := c.from.Secret(ctx, name)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= secretsMost {
		clear(c.known)
	}
	c.known[name] = knownSecret{text, now}
	return text, nil
}

// stackSecret is an entry that the stack makes.
type stackSecret struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

var secretID = regexp.MustCompile(`^[A-Za-z0-9]{1,32}$`)

// readStackSecret reads one. variable is the name of the variable that names it,
// for messages: the entry's text is never part of one.
func readStackSecret(ctx context.Context, from Secrets, variable, name string) (stackSecret, error) {
	text, err := from.Secret(ctx, name)
	if err != nil {
		return stackSecret{}, secretProblem(variable, err)
	}
	var s stackSecret
	if json.Unmarshal([]byte(text), &s) != nil || !secretID.MatchString(s.ID) || len(s.Secret) < secretLeast {
		return stackSecret{}, fmt.Errorf(`the Secrets Manager entry that %s names holds no secret of this program: put {"%s": "<letters and digits>", "%s": "<%d characters or more>"} there`,
			variable, env.SecretID, env.SecretText, secretLeast)
	}
	return s, nil
}

func secretProblem(variable string, err error) error {
	if errors.Is(err, host.ErrNotFound) {
		return fmt.Errorf("the Secrets Manager entry that %s names is not there: deploy the stack again, or name one that is: %w", variable, err)
	}
	return fmt.Errorf("the Secrets Manager entry that %s names cannot be read: %w", variable, err)
}

// token is the key that the entry stands for, as clients send it.
func (s stackSecret) token() string { return "pk_" + s.ID + "_" + s.Secret }

// derive makes a key for one purpose from the root. Whoever learns one of them
// learns nothing of the root or of the others.
func (s stackSecret) derive(purpose string) ([]byte, error) {
	return hkdf.Key(sha256.New, []byte(s.Secret), nil, "perdure."+purpose+".1\n"+s.ID, derivedBytes)
}

// signing are the keys that sign what is handed out.
type signing struct {
	promises host.Keyring
	cursors  []byte
}

func (s stackSecret) signing() (signing, error) {
	promises, err := s.derive("promise")
	if err != nil {
		return signing{}, err
	}
	cursors, err := s.derive("cursor")
	if err != nil {
		return signing{}, err
	}
	return signing{promises: host.Keyring{{ID: s.ID, Key: promises}}, cursors: cursors}, nil
}
