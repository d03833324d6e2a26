package dir

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Bounds, as the port has them.
const (
	pathMax = 512      // bytes of a path
	fileMax = 16 << 20 // bytes of a file
)

// The folders in which workspaces are kept: <tenant>/own/<session> and
// <tenant>/shared/<name>. No two can be the same folder, because an id is
// checked and has one encoding.
const (
	ownFolder    = "own"
	sharedFolder = "shared"
)

// workspaceFolder is where a workspace is, relative to the root of all.
func workspaceFolder(key host.Key, name string) (string, error) {
	tenant, err := encodeID("tenant id", string(key.Tenant))
	if err != nil {
		return "", err
	}
	if name != "" {
		shared, err := encodeID("workspace name", name)
		return tenant + "/" + sharedFolder + "/" + shared, err
	}
	session, err := encodeID("session id", string(key.Session))
	return tenant + "/" + ownFolder + "/" + session, err
}

// encodeID turns an id into a folder's name that stays distinct where case is
// ignored and colons are not allowed: lower case, "+" for the colon, and after
// a "=" which letters were upper case, as bits in hex. The alphabet of ids has
// neither "+" nor "=", and an id begins with a letter or digit, so the name is
// never "." or "..".
func encodeID(what, id string) (string, error) {
	if _, err := ident.ParseName(what, id); err != nil {
		return "", fmt.Errorf("%w: %w", err, fs.ErrInvalid)
	}
	bits := make([]byte, (len(id)+7)/8)
	upper := -1
	name := []byte(id)
	for i, c := range name {
		switch {
		case c >= 'A' && c <= 'Z':
			name[i] = c - 'A' + 'a'
			bits[i/8] |= 1 << (i % 8)
			upper = i
		case c == ':':
			name[i] = '+'
		}
	}
	if upper < 0 {
		return string(name), nil
	}
	return string(name) + "=" + hex.EncodeToString(bits[:upper/8+1]), nil
}

// decodeID reads what encodeID made; ok is false for any other name.
func decodeID(name string) (id string, ok bool) {
	lower, digits, marked := strings.Cut(name, "=")
	bits, err := hex.DecodeString(digits)
	if err != nil || marked && len(bits) == 0 {
		return "", false
	}
	b := []byte(strings.ReplaceAll(lower, "+", ":"))
	for i := range b {
		if i/8 < len(bits) && bits[i/8]&(1<<(i%8)) != 0 {
			b[i] -= 'a' - 'A'
		}
	}
	again, err := encodeID("name", string(b))
	return string(b), err == nil && again == name
}

// checkPath holds paths to the port's rule before any of them reaches the
// file system.
func checkPath(path string) error {
	bad := func(why string) error { return fmt.Errorf("path: %s: %w", why, fs.ErrInvalid) }
	if path == "" || len(path) > pathMax {
		return bad(fmt.Sprintf("it has %d bytes, allowed are 1 to %d", len(path), pathMax))
	}
	if !utf8.ValidString(path) || strings.IndexByte(path, 0) >= 0 {
		return bad("it is not UTF-8, or has a NUL byte")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return bad("it has an empty part, or one that is . or ..")
		}
	}
	return nil
}
