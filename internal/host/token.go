package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/perdure/perdure/core/ident"
)

// Secret signs promise tokens. ID is part of the token, so that keys can be
// replaced while old tokens are out.
type Secret struct {
	ID  string // letters and digits
	Key []byte // 32 bytes or more
}

// Keyring holds the secrets: the first signs, all verify.
type Keyring []Secret

// tokenPrefix starts every promise token.
const tokenPrefix = "pt_"

// Token computes the token that settles a promise from outside. It is never
// stored: events carry the promise's id only.
func (k Keyring) Token(key Key, inc string, p ident.PromiseID) string {
	if len(k) == 0 {
		return ""
	}
	body := base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{string(key.Tenant), string(key.Session), inc, p.String()}, "\n")))
	return tokenPrefix + k[0].ID + "." + body + "." + k[0].sign(body)
}

func (s Secret) sign(body string) string {
	mac := hmac.New(sha256.New, s.Key)
	mac.Write([]byte("perdure.promise.1\n" + s.ID + "\n" + body))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// PromiseClaim is what a token stands for.
type PromiseClaim struct {
	Key     Key
	Inc     string
	Promise ident.PromiseID
}

// Open verifies a token in constant time. false says only that it is none of
// ours.
func (k Keyring) Open(token string) (PromiseClaim, bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	const longest = 1024
	parts := strings.Split(rest, ".")
	if !ok || len(token) > longest || len(parts) != 3 {
		return PromiseClaim{}, false
	}
	for _, s := range k {
		if s.ID != parts[0] || !hmac.Equal([]byte(s.sign(parts[1])), []byte(parts[2])) {
			continue
		}
		body, err := base64.RawURLEncoding.DecodeString(parts[1])
		f := strings.Split(string(body), "\n")
		if err != nil || len(f) != 4 {
			return PromiseClaim{}, false
		}
		id, err := ident.ParsePromiseID(f[3])
		if err != nil {
			return PromiseClaim{}, false
		}
		return PromiseClaim{Key: Key{Tenant: ident.TenantID(f[0]), Session: ident.SessionID(f[1])}, Inc: f[2], Promise: id}, true
	}
	return PromiseClaim{}, false
}
