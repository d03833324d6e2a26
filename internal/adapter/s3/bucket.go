package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const (
	attempts    = 6                      // of one request, the first included
	backoffMost = 500 * time.Millisecond // before one of them
	// headersMost is how long S3 may take to begin an answer, and opMost how
	// long one request may take with all its attempts: nothing here hangs.
	headersMost = 20 * time.Second
	opMost      = 2 * time.Minute
	pageMost    = 1000 // keys of one listing, or of one deletion; S3's own bound
	atOnce      = 16   // requests of one operation in flight
)

// bucket is the one bucket, and what may be done to it.
type bucket struct {
	name   string
	client *aws3.Client
	seen   atomic.Bool // the bucket has answered: a 404 is of an object
}

// openBucket sets on purpose what the SDK would do by itself.
func openBucket(cfg aws.Config, name string) *bucket {
	if client, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok || cfg.HTTPClient == nil {
		if client == nil {
			client = awshttp.NewBuildableClient()
		}
		cfg.HTTPClient = client.WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = headersMost })
	}
	options := []func(*aws3.Options){func(o *aws3.Options) {
		// Retried is what AWS says is safe to, and a conditional write that met
		// another one under way (409), which S3 asks to send again.
		o.Retryer = retry.AddWithErrorCodes(retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = attempts
			r.Backoff = retry.NewExponentialJitterBackoff(backoffMost)
		}), conflictCode)
		o.RetryMaxAttempts = attempts // what all clients are set to would be put over it
		// Every object goes with its SHA-256 and is held against one when it is
		// read. The SDK's own checksums would be trailers of a chunked body,
		// which not every server with S3's interface can read.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	}}
	client := aws3.NewFromConfig(cfg, options...)
	if client.Options().BaseEndpoint != nil {
		// A name below somebody else's host may not resolve.
		client = aws3.NewFromConfig(cfg, append(options, func(o *aws3.Options) { o.UsePathStyle = true })...)
	}
	return &bucket{name: name, client: client}
}

// object is what is known of a stored object.
type object struct {
	etag     string
	size     int64
	modified time.Time
	meta     map[string]string
}

// condition is what a write asks of the object that is there; the zero value
// asks nothing.
type condition struct {
	absent bool
	etag   string
}

// put stores an object whole. errRefused says that the condition did not hold.
func (b *bucket) put(ctx context.Context, key string, data []byte, when condition, meta map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, opMost)
	defer cancel()
	sum := sha256.Sum256(data)
	in := &aws3.PutObjectInput{
		Bucket: &b.name, Key: &key, Body: bytes.NewReader(data), ContentLength: aws.Int64(int64(len(data))),
		ChecksumSHA256: aws.String(base64.StdEncoding.EncodeToString(sum[:])), ContentType: aws.String("application/octet-stream"), Metadata: meta,
	}
	if when.absent {
		in.IfNoneMatch = aws.String("*")
	}
	if when.etag != "" {
		in.IfMatch = &when.etag
	}
	_, err := b.client.PutObject(ctx, in)
	return b.judge("put", "s3:PutObject", err)
}

// get reads an object whole, if it has no more than most bytes.
func (b *bucket) get(ctx context.Context, key string, most int64) ([]byte, object, error) {
	ctx, cancel := context.WithTimeout(ctx, opMost)
	defer cancel()
	out, err := b.client.GetObject(ctx, &aws3.GetObjectInput{Bucket: &b.name, Key: &key})
	if err := b.judge("get", "s3:GetObject", err); err != nil {
		return nil, object{}, err
	}
	defer func() { _ = out.Body.Close() }() // read whole or given up; nothing is lost by it
	o := object{etag: aws.ToString(out.ETag), size: aws.ToInt64(out.ContentLength), modified: aws.ToTime(out.LastModified), meta: out.Metadata}
	if o.size > most {
		return nil, o, fmt.Errorf("get: %w: it has %d bytes, allowed are %d", errTooLarge, o.size, most)
	}
	data := make([]byte, 0, min(max(o.size, 0), most)+1) // one more, so that the end is met without growing
	into := bytes.NewBuffer(data)
	n, err := io.Copy(into, io.LimitReader(out.Body, most+1))
	switch {
	case err != nil:
		return nil, o, b.judge("get", "s3:GetObject", err)
	case n > most:
		return nil, o, fmt.Errorf("get: %w: it has more than %d bytes", errTooLarge, most)
	}
	o.size = n
	return into.Bytes(), o, nil
}

// head says what is known of an object.
func (b *bucket) head(ctx context.Context, key string) (object, error) {
	ctx, cancel := context.WithTimeout(ctx, opMost)
	defer cancel()
	out, err := b.client.HeadObject(ctx, &aws3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if err := b.judgeHead(ctx, err); err != nil {
		return object{}, err
	}
	return object{etag: aws.ToString(out.ETag), size: aws.ToInt64(out.ContentLength), modified: aws.ToTime(out.LastModified), meta: out.Metadata}, nil
}

// remove deletes an object. Without a condition it is no error that there is
// none.
func (b *bucket) remove(ctx context.Context, key string, when condition) error {
	ctx, cancel := context.WithTimeout(ctx, opMost)
	defer cancel()
	in := &aws3.DeleteObjectInput{Bucket: &b.name, Key: &key}
	if when.etag != "" {
		in.IfMatch = &when.etag
	}
	_, err := b.client.DeleteObject(ctx, in)
	return b.judge("delete", "s3:DeleteObject", err)
}

// listed is one row of a listing: an object, or (its key ends in the delimiter
// that was asked for) a common prefix.
type listed struct {
	key      string
	size     int64
	modified time.Time
}

// query is a listing: keys with the prefix, after one, and, with a delimiter,
// what lies below the next one as a single row.
type query struct {
	prefix, after, delimiter string
}

// list hands the rows of a query, in order, to see, page by page, until it
// returns false. most is how many rows are likely to be wanted.
func (b *bucket) list(ctx context.Context, q query, most int, see func(page []listed) (bool, error)) error {
	in := &aws3.ListObjectsV2Input{
		Bucket: &b.name, Prefix: &q.prefix, MaxKeys: aws.Int32(int32(min(max(most, 1), pageMost))),
		// XML has no way to write every character that a key may have.
		EncodingType: types.EncodingTypeUrl,
	}
	if q.after != "" {
		in.StartAfter = &q.after
	}
	if q.delimiter != "" {
		in.Delimiter = &q.delimiter
	}
	for {
		out, err := b.page(ctx, in)
		if err != nil {
			return err
		}
		rows, err := rowsOf(out)
		if err != nil {
			return err
		}
		more, err := see(rows)
		if err != nil || !more || !aws.ToBool(out.IsTruncated) {
			return err
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

func (b *bucket) page(ctx context.Context, in *aws3.ListObjectsV2Input) (*aws3.ListObjectsV2Output, error) {
	ctx, cancel := context.WithTimeout(ctx, opMost)
	defer cancel()
	out, err := b.client.ListObjectsV2(ctx, in)
	return out, b.judge("list", "s3:ListBucket", err)
}

func rowsOf(out *aws3.ListObjectsV2Output) ([]listed, error) {
	rows := make([]listed, 0, len(out.Contents)+len(out.CommonPrefixes))
	for i := range out.Contents {
		c := &out.Contents[i]
		key, err := url.QueryUnescape(aws.ToString(c.Key))
		if err != nil {
			return nil, fmt.Errorf("list: a key cannot be read: %w", err)
		}
		rows = append(rows, listed{key: key, size: aws.ToInt64(c.Size), modified: aws.ToTime(c.LastModified)})
	}
	for _, c := range out.CommonPrefixes {
		key, err := url.QueryUnescape(aws.ToString(c.Prefix))
		if err != nil {
			return nil, fmt.Errorf("list: a prefix cannot be read: %w", err)
		}
		rows = append(rows, listed{key: key})
	}
	sortRows(rows)
	return rows, nil
}
