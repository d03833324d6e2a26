package s3

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func sortRows(rows []listed) {
	slices.SortFunc(rows, func(a, b listed) int { return cmp.Compare(a.key, b.key) })
}

// clear deletes the objects whose key has the prefix, those at or beyond upTo
// excepted if it is given, page by page. A call that was cut short may be
// repeated.
func (b *bucket) clear(ctx context.Context, prefix, upTo string) error {
	return b.list(ctx, query{prefix: prefix}, pageMost, func(page []listed) (bool, error) {
		keys := make([]string, 0, len(page))
		for _, row := range page {
			if upTo != "" && row.key >= upTo {
				return false, b.removeAll(ctx, keys)
			}
			keys = append(keys, row.key)
		}
		return true, b.removeAll(ctx, keys)
	})
}

// removeAll deletes objects; that one is not there is no error.
func (b *bucket) removeAll(ctx context.Context, keys []string) error {
	var together []types.ObjectIdentifier
	var alone []string
	for _, key := range keys {
		if plain(key) {
			together = append(together, types.ObjectIdentifier{Key: aws.String(key)})
		} else {
			alone = append(alone, key)
		}
	}
	for len(together) > 0 {
		n := min(len(together), pageMost)
		if err := b.removePage(ctx, together[:n]); err != nil {
			return err
		}
		together = together[n:]
	}
	return each(alone, func(key *string) error { return b.remove(ctx, *key, condition{}) })
}

func (b *bucket) removePage(ctx context.Context, page []types.ObjectIdentifier) error {
	ctx, cancel := context.WithTimeout(ctx, opMost)
	defer cancel()
	out, err := b.client.DeleteObjects(ctx, &aws3.DeleteObjectsInput{
		Bucket: &b.name, Delete: &types.Delete{Objects: page, Quiet: aws.Bool(true)},
	})
	if err := b.judge("delete", "s3:DeleteObject", err); err != nil {
		return err
	}
	for i := range out.Errors {
		// One answer for the page: the rest is found by the next pass.
		return b.judge("delete", "s3:DeleteObject", keyError(out.Errors[i]))
	}
	return nil
}

// plain says whether XML 1.0, in which a deletion names its keys, can say a
// key. One with a control character is deleted by itself, by its URL.
func plain(key string) bool {
	return utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == 0xfffe || r == 0xffff
	})
}

// each calls do for all items, several at once, and returns what failed.
func each[T any](items []T, do func(*T) error) error {
	var (
		all    sync.WaitGroup
		slots  = make(chan struct{}, atOnce)
		failed = make([]error, len(items))
	)
	for i := range items {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			failed[i] = do(&items[i])
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
