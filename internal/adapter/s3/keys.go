package s3

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// All keys of the bucket are built in this file:
//
//	<tenant>/<session>/<incarnation>/blob/<sha256 in hex>
//	<tenant>/<session>/<incarnation>/ckpt/<12-digit seq>
//	workspaces/<tenant>/own/<session>/<path>
//	workspaces/<tenant>/shared/<name>/<path>
//
// No two of them can be the same, whatever the ids: an id has no slash, and the
// third part tells a tenant called "workspaces" from the workspaces, because an
// incarnation is capitals and digits only.
const (
	blobFolder       = "blob/"
	checkpointFolder = "ckpt/"
	workspacesFolder = "workspaces/"
	ownFolder        = "/own/"
	sharedFolder     = "/shared/"
)

const incMax = 64 // bytes of an incarnation; a ULID has 26

// sessionPrefix is what the keys of all incarnations of a session begin with.
func sessionPrefix(key host.Key) (string, error) {
	if _, err := ident.ParseTenantID(string(key.Tenant)); err != nil {
		return "", fmt.Errorf("object key: %w", err)
	}
	if _, err := ident.ParseSessionID(string(key.Session)); err != nil {
		return "", fmt.Errorf("object key: %w", err)
	}
	return string(key.Tenant) + "/" + string(key.Session) + "/", nil
}

// incPrefix is what the keys of one incarnation begin with.
func incPrefix(key host.Key, inc string) (string, error) {
	prefix, err := sessionPrefix(key)
	if err != nil {
		return "", err
	}
	if inc == "" || len(inc) > incMax || strings.Trim(inc, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return "", fmt.Errorf("object key: the incarnation of %s is not a ULID", key)
	}
	return prefix + inc + "/", nil
}

func blobKey(key host.Key, inc string, ref blob.Ref) (string, error) {
	if _, err := blob.ParseRef(string(ref)); err != nil {
		return "", fmt.Errorf("object key: %w", err)
	}
	prefix, err := incPrefix(key, inc)
	return prefix + blobFolder + ref.Hex(), err
}

func checkpointPrefix(key host.Key, inc string) (string, error) {
	prefix, err := incPrefix(key, inc)
	return prefix + checkpointFolder, err
}

func checkpointKey(prefix string, seq ident.Seq) string {
	return fmt.Sprintf("%s%012d", prefix, uint64(seq))
}

// workspacePrefix is what the keys of a workspace's files begin with.
func workspacePrefix(key host.Key, name string) (string, error) {
	tenant, err := tenantPrefix(key.Tenant)
	if err != nil {
		return "", err
	}
	if name != "" {
		_, err := ident.ParseName("workspace name", name)
		return tenant + sharedFolder + name + "/", invalid(err)
	}
	_, err = ident.ParseSessionID(string(key.Session))
	return tenant + ownFolder + string(key.Session) + "/", invalid(err)
}

func tenantPrefix(tenant ident.TenantID) (string, error) {
	_, err := ident.ParseTenantID(string(tenant))
	return workspacesFolder + string(tenant), invalid(err)
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", err, fs.ErrInvalid)
}

// Bounds, as the file tools' port and a file system have them: what works on a
// laptop works here, and the other way round.
const (
	pathMax = 512      // bytes of a path
	partMax = 255      // bytes of one part of it
	fileMax = 16 << 20 // bytes of a file
)

// checkPath holds paths to the port's rule before any of them becomes a key.
func checkPath(path string) error {
	bad := func(why string) error { return fmt.Errorf("path: %s: %w", why, fs.ErrInvalid) }
	if path == "" || len(path) > pathMax {
		return bad(fmt.Sprintf("it has %d bytes, allowed are 1 to %d", len(path), pathMax))
	}
	if !utf8.ValidString(path) || strings.IndexByte(path, 0) >= 0 {
		return bad("it is not UTF-8, or has a NUL byte")
	}
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "" || segment == "." || segment == "..":
			return bad("it has an empty part, or one that is . or ..")
		case len(segment) > partMax:
			return bad(fmt.Sprintf("a part of it has %d bytes, allowed are %d", len(segment), partMax))
		}
	}
	return nil
}
