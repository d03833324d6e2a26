package s3

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
)

// writeTries bounds how often a write looks again at a file that is changed
// under its hands. Nearly always the second look answers it: what is there now
// is not what was asked for.
const writeTries = 8

// WriteFile implements the port.
func (w *Workspaces) WriteFile(
	ctx context.Context, key host.Key, workspace, path string, data []byte, expect *blob.Ref, operation string,
) (blob.Ref, bool, error) {
	p, err := placeOf(ctx, key, workspace, path)
	if err != nil {
		return "", false, err
	}
	if len(data) > fileMax {
		return "", false, fmt.Errorf("write %s: it has %d bytes, allowed are %d: %w", path, len(data), fileMax, fs.ErrInvalid)
	}
	content := blob.Sum(data)
	meta := map[string]string{metaContent: string(content)}
	if operation != "" {
		meta[metaOperation] = base64.RawURLEncoding.EncodeToString([]byte(operation))
	}
	if expect != nil {
		meta[metaWrite] = rand.Text()
	}
	for try := range writeTries {
		o, actual, err := w.stat(ctx, p)
		switch {
		case errors.Is(err, host.ErrNotFound):
			err = w.free(ctx, p)
		case err == nil && try > 0 && o.meta[metaWrite] == meta[metaWrite]:
			// An answer was lost, and the write that was sent again met itself.
			return content, true, nil
		}
		if err != nil {
			return "", false, err
		}
		var when condition
		if expect != nil {
			if *expect != actual {
				return actual, false, nil
			}
			when = condition{etag: o.etag, absent: actual == ""}
		}
		err = w.bucket.put(ctx, p.key(), data, when, meta)
		switch {
		case err == nil:
			return content, true, nil
		case !errors.Is(err, errRefused) && !errors.Is(err, host.ErrNotFound):
			return "", false, fmt.Errorf("write %s: %w", path, err)
		}
	}
	return "", false, fmt.Errorf("write %s: others change it all the time: try again", path)
}

// free says whether a new file may be called so: no part of its path is a
// file, and it is no folder itself.
func (w *Workspaces) free(ctx context.Context, p place) error {
	checks := []func() error{func() error {
		return w.bucket.list(ctx, query{prefix: p.key() + "/"}, 1, func(page []listed) (bool, error) {
			if len(page) > 0 {
				return false, fmt.Errorf("write %s: a folder is there: %w", p.path, fs.ErrInvalid)
			}
			return true, nil
		})
	}}
	for i := range len(p.path) {
		if p.path[i] != '/' {
			continue
		}
		checks = append(checks, func() error {
			_, err := w.bucket.head(ctx, p.prefix+p.path[:i])
			switch {
			case err == nil:
				return fmt.Errorf("write %s: %s is a file: %w", p.path, p.path[:i], fs.ErrInvalid)
			case errors.Is(err, host.ErrNotFound):
				return nil
			}
			return err
		})
	}
	return each(checks, func(check *func() error) error { return (*check)() })
}

// DeleteFile implements the port.
func (w *Workspaces) DeleteFile(ctx context.Context, key host.Key, workspace, path string, expect *blob.Ref) (blob.Ref, bool, error) {
	p, err := placeOf(ctx, key, workspace, path)
	if err != nil {
		return "", false, err
	}
	if expect == nil {
		if _, _, err = w.stat(ctx, p); err != nil {
			return "", false, err
		}
		// The last one wins, as with a write that expects nothing: what another
		// writes after the look goes too, and so does what is written between a
		// request whose answer was lost and the client's next.
		if err = w.bucket.remove(ctx, p.key(), condition{}); err != nil {
			return "", false, fmt.Errorf("delete %s: %w", path, err)
		}
		return "", true, nil
	}
	for range writeTries {
		o, actual, err := w.stat(ctx, p)
		switch {
		case errors.Is(err, host.ErrNotFound):
			return "", *expect == "", nil
		case err != nil:
			return "", false, err
		case *expect != actual:
			return actual, false, nil
		}
		err = w.bucket.remove(ctx, p.key(), condition{etag: o.etag})
		switch {
		case err == nil, errors.Is(err, host.ErrNotFound):
			// Gone meanwhile is gone, perhaps by this very request, the answer
			// to which was lost.
			return "", true, nil
		case !errors.Is(err, errRefused):
			return "", false, fmt.Errorf("delete %s: %w", path, err)
		}
	}
	return "", false, fmt.Errorf("delete %s: others change it all the time: try again", path)
}
