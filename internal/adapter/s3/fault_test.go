package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// injector stands before the endpoint and answers, or loses answers, in its
// place.
type injector struct {
	base aws.HTTPClient
	mu   sync.Mutex
	// seen are "<method> <status>" in order, what was injected marked with "!".
	// The endpoint's own counts once in a row: a busy one may lose a connection
	// by itself.
	seen []string
	// before answers instead of the endpoint; nil lets the request through.
	before func(r *http.Request) *http.Response
	// lose says that the endpoint's answer to a request never arrives.
	lose func(r *http.Request) bool
}

func inject(cfg aws.Config) (aws.Config, *injector) {
	i := &injector{base: cfg.HTTPClient}
	cfg.HTTPClient = i
	return cfg, i
}

func (i *injector) Do(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	var resp *http.Response
	lose := i.lose != nil && i.lose(r)
	if i.before != nil {
		resp = i.before(r)
	}
	mark := ""
	if resp != nil {
		mark = "!"
	}
	i.mu.Unlock()
	var err error
	if resp == nil {
		if resp, err = i.base.Do(r); err != nil {
			return nil, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	now := fmt.Sprintf("%s %d%s", r.Method, resp.StatusCode, mark)
	if mark != "" || len(i.seen) == 0 || i.seen[len(i.seen)-1] != now {
		i.seen = append(i.seen, now)
	}
	if lose {
		_ = resp.Body.Close()
		return nil, errors.New("connection reset by peer")
	}
	return resp, nil
}

// answers are those so far, and forgets them.
func (i *injector) answers() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	seen := i.seen
	i.seen = nil
	return seen
}

// refusal is an answer of S3 with an error in it.
func refusal(status int, code string) *http.Response {
	body := "<Error><Code>" + code + "</Code><Message>as injected</Message></Error>"
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/xml"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// first answers the first n requests of a method in one way.
func first(n int, method string, answer func() *http.Response) func(*http.Request) *http.Response {
	return func(r *http.Request) *http.Response {
		if r.Method != method || n == 0 {
			return nil
		}
		n--
		return answer()
	}
}

func creation(session, inc string, blobs ...host.Blob) host.Commit {
	return host.Commit{Key: key(session), Head: host.Head{Rev: 1, Write: "w" + inc, Seq: 1, Inc: inc, Status: host.StatusOpen}, Blobs: blobs}
}

func blobOf(text string) host.Blob {
	return host.Blob{Ref: blob.Sum([]byte(text)), Data: []byte(text)}
}

// injected makes a world with one session whose requests go by way of an
// injector.
func injected(t *testing.T) (*world, *injector) {
	t.Helper()
	cfg, bucket := newBucket(t)
	cfg.RetryMaxAttempts = 2 // of all clients; this one has its own
	through, i := inject(cfg)
	w := newWorldAt(t, through, bucket, false)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc)))
	return w, i
}

func TestAConflictOfWritesIsSentAgain(t *testing.T) {
	t.Parallel()
	w, i := injected(t)
	i.before = first(3, http.MethodPut, func() *http.Response { return refusal(http.StatusConflict, "ConditionalRequestConflict") })
	require.NoError(t, w.PutBlob(t.Context(), key("s1"), blobOf("x")))
	require.Equal(t, []string{"PUT 409!", "PUT 409!", "PUT 409!", "PUT 200"}, i.answers())

	i.before = first(100, http.MethodPut, func() *http.Response { return refusal(http.StatusConflict, "ConditionalRequestConflict") })
	require.ErrorContains(t, w.PutBlob(t.Context(), key("s1"), blobOf("y")), "ConditionalRequestConflict")
	require.Len(t, i.answers(), 6, "the tries are bounded")
}

func TestABlobThatIsThereIsNotAnError(t *testing.T) {
	t.Parallel()
	w, i := injected(t)
	for range 2 {
		require.NoError(t, w.PutBlob(t.Context(), key("s1"), blobOf("x")))
	}
	require.Equal(t, []string{"PUT 200", "PUT 412"}, i.answers())
	lost := 1
	i.lose = func(r *http.Request) bool { lost--; return lost == 0 }
	require.NoError(t, w.PutBlob(t.Context(), key("s1"), blobOf("y")))
	require.Equal(t, []string{"PUT 200", "PUT 412"}, i.answers(), "the answer was lost, and the second try met the first")
	got, err := w.GetBlob(t.Context(), key("s1"), blobOf("y").Ref)
	require.NoError(t, err)
	require.Equal(t, "y", string(got))
}

func TestThrottlingIsRetried(t *testing.T) {
	t.Parallel()
	w, i := injected(t)
	i.before = first(2, http.MethodGet, func() *http.Response { return refusal(http.StatusServiceUnavailable, "SlowDown") })
	_, err := w.GetBlob(t.Context(), key("s1"), blobOf("x").Ref)
	require.ErrorIs(t, err, host.ErrNotFound)
	require.Equal(t, []string{"GET 503!", "GET 503!", "GET 404"}, i.answers())
}

func TestABucketThatIsNotThereSaysWhatToDo(t *testing.T) {
	t.Parallel()
	cfg, _ := newBucket(t)
	w := newWorldAt(t, cfg, "perdure-no-such-bucket", false)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc)))
	files, err := s3.OpenWorkspaces(cfg, "perdure-no-such-bucket")
	require.NoError(t, err)

	_, getBlob := w.GetBlob(t.Context(), key("s1"), blobOf("x").Ref)
	_, checkpoints := w.LatestCheckpoints(t.Context(), key("s1"), 2)
	_, read := files.ReadFile(t.Context(), key("s1"), "", "f")
	_, stat := files.StatFile(t.Context(), key("s1"), "", "f")
	_, _, write := files.WriteFile(t.Context(), key("s1"), "", "f", nil, nil, "")
	_, _, remove := files.DeleteFile(t.Context(), key("s1"), "", "f", nil)
	_, list := files.ListFiles(t.Context(), key("s1"), "", "", "", true, 1)
	for what, err := range map[string]error{
		"put blob": w.PutBlob(t.Context(), key("s1"), blobOf("x")), "get blob": getBlob,
		"put checkpoint": w.PutCheckpoint(t.Context(), key("s1"), host.Checkpoint{Inc: inc, Seq: 1}), "checkpoints": checkpoints,
		"purge": w.Purge(t.Context(), key("s1"), inc),
		"read":  read, "stat": stat, "write": write, "delete": remove, "list": list, "drop": files.DropWorkspace(t.Context(), key("s1"), ""),
	} {
		require.ErrorContains(t, err, "bucket perdure-no-such-bucket does not exist: deploy first or set PERDURE_BUCKET", what)
		require.NotErrorIs(t, err, host.ErrNotFound, what)
	}
	_, err = s3.Open(cfg, s3.Options{Log: w.log})
	require.ErrorContains(t, err, "set PERDURE_BUCKET")
	_, err = s3.OpenWorkspaces(cfg, "")
	require.ErrorContains(t, err, "set PERDURE_BUCKET")
}

func TestARefusedRequestNamesThePermission(t *testing.T) {
	t.Parallel()
	cfg, bucket := newBucket(t)
	through, i := inject(cfg)
	w := newWorldAt(t, through, bucket, false)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc)))
	files, err := s3.OpenWorkspaces(through, bucket)
	require.NoError(t, err)
	i.before = func(r *http.Request) *http.Response {
		resp := refusal(http.StatusForbidden, "AccessDenied")
		if r.Method == http.MethodHead {
			resp.Body, resp.ContentLength = http.NoBody, 0
		}
		return resp
	}
	_, get := w.GetBlob(t.Context(), key("s1"), blobOf("x").Ref)
	_, stat := files.StatFile(t.Context(), key("s1"), "", "f")
	_, list := files.ListFiles(t.Context(), key("s1"), "", "", "", true, 1)
	for _, c := range []struct {
		err        error
		permission string
	}{
		{w.PutBlob(t.Context(), key("s1"), blobOf("x")), "s3:PutObject"}, {get, "s3:GetObject"}, {stat, "s3:GetObject"}, {list, "s3:ListBucket"},
	} {
		require.ErrorContains(t, c.err, "grant the role "+c.permission)
		require.ErrorContains(t, c.err, bucket)
		require.NotErrorIs(t, c.err, host.ErrNotFound)
	}
	require.Len(t, i.answers(), 4, "what is forbidden is not tried again")
}

func TestACommitWhoseBlobCannotBePutIsNotMade(t *testing.T) {
	t.Parallel()
	w, i := injected(t)
	i.before = func(r *http.Request) *http.Response { return refusal(http.StatusForbidden, "AccessDenied") }
	c := creation("s2", inc, blobOf("a"), blobOf("b"))
	require.Error(t, w.Commit(t.Context(), c))
	_, err := w.Head(t.Context(), key("s2"))
	require.ErrorIs(t, err, host.ErrNotFound)
	i.before = nil
	require.NoError(t, w.Commit(t.Context(), c))
}

// loseNext loses the answer to the next request with a method.
func (i *injector) loseNext(method string) {
	lost := false
	i.lose = func(r *http.Request) bool {
		now := r.Method == method && !lost
		lost = lost || now
		return now
	}
}

func TestAConditionalWriteWhoseAnswerWasLostKnowsItself(t *testing.T) {
	t.Parallel()
	cfg, bucket := newBucket(t)
	through, i := inject(cfg)
	files, err := s3.OpenWorkspaces(through, bucket)
	require.NoError(t, err)
	absent, one, two := blob.Ref(""), blob.Sum([]byte("one")), blob.Sum([]byte("two"))
	write := func(text string, expect blob.Ref) (blob.Ref, bool) {
		content, done, err := files.WriteFile(t.Context(), key("s1"), "", "f", []byte(text), &expect, "op")
		require.NoError(t, err)
		return content, done
	}
	i.loseNext(http.MethodPut)
	content, done := write("one", absent)
	require.True(t, done)
	require.Equal(t, one, content)
	require.Contains(t, i.answers(), "PUT 412", "the second try met the first")
	i.loseNext(http.MethodPut)
	content, done = write("two", one)
	require.True(t, done)
	require.Equal(t, two, content)
	require.Contains(t, i.answers(), "PUT 412")
	content, done = write("two", one)
	require.False(t, done, "another's write of the same bytes is not mine")
	require.Equal(t, two, content)
}

func TestADeletionWhoseAnswerWasLostIsDone(t *testing.T) {
	t.Parallel()
	for name, conditional := range map[string]bool{"AsItWasRead": true, "AsItIs": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if conditional {
				target.Get(t).Need(t, target.ConditionalDeletes)
			}
			cfg, bucket := newBucket(t)
			through, i := inject(cfg)
			files, err := s3.OpenWorkspaces(through, bucket)
			require.NoError(t, err)
			content, _, err := files.WriteFile(t.Context(), key("s1"), "", "f", []byte("two"), nil, "")
			require.NoError(t, err)
			expect := &content
			if !conditional {
				expect = nil
			}
			i.loseNext(http.MethodDelete)
			_, done, err := files.DeleteFile(t.Context(), key("s1"), "", "f", expect)
			require.NoError(t, err)
			require.True(t, done)
			want := "DELETE 204"
			if conditional {
				want = "DELETE 404" // the second try, after the first
			}
			require.Contains(t, i.answers(), want)
			require.Empty(t, keys(t, cfg, bucket))
		})
	}
}

func TestWhatOthersPutInTheBucketIsReadAsFiles(t *testing.T) {
	t.Parallel()
	cfg, bucket := newBucket(t)
	files, err := s3.OpenWorkspaces(cfg, bucket)
	require.NoError(t, err)
	put := func(path, text string) {
		name := "workspaces/acme/own/s1/" + path
		_, err := client(cfg).PutObject(t.Context(), &aws3.PutObjectInput{Bucket: &bucket, Key: &name, Body: strings.NewReader(text)})
		require.NoError(t, err)
	}
	put("foreign", "one")
	put("folder/", "") // as the console of S3 makes one
	put("folder/in", "x")
	st, err := files.StatFile(t.Context(), key("s1"), "", "foreign")
	require.NoError(t, err)
	require.Equal(t, blob.Sum([]byte("one")), st.Content)
	_, done, err := files.WriteFile(t.Context(), key("s1"), "", "foreign", []byte("two"), &st.Content, "")
	require.NoError(t, err)
	require.True(t, done)
	entries, err := files.ListFiles(t.Context(), key("s1"), "", "", "", true, 10)
	require.NoError(t, err)
	require.Len(t, entries, 2)

	put("big", strings.Repeat("x", 16<<20+1))
	_, err = files.ReadFile(t.Context(), key("s1"), "", "big")
	require.ErrorIs(t, err, fs.ErrInvalid)
}

// TestNamesThatXMLCannotSay: control characters are in no listing as they are,
// and in no deletion of many.
func TestNamesThatXMLCannotSay(t *testing.T) {
	t.Parallel()
	files, err := s3.OpenWorkspaces(newBucket(t))
	require.NoError(t, err)
	want := []string{"\x01", "a\x0bb", "a\rb", "a b", "a+b", "a&<b>", "c\x1f/d", "\uffff"}
	for _, path := range want {
		_, _, err := files.WriteFile(t.Context(), key("s1"), "", path, []byte(path), nil, "")
		require.NoError(t, err)
	}
	list := func() []string {
		entries, err := files.ListFiles(t.Context(), key("s1"), "", "", "", true, 100)
		require.NoError(t, err)
		var got []string
		for _, e := range entries {
			got = append(got, e.Path)
		}
		return got
	}
	require.ElementsMatch(t, want, list())
	require.NoError(t, files.DropWorkspace(t.Context(), key("s1"), ""))
	require.Empty(t, list())
}

func TestADamagedFileIsNotReturned(t *testing.T) {
	t.Parallel()
	cfg, bucket := newBucket(t)
	files, err := s3.OpenWorkspaces(cfg, bucket)
	require.NoError(t, err)
	content, _, err := files.WriteFile(t.Context(), key("s1"), "", "f", []byte("whole"), nil, "")
	require.NoError(t, err)
	name := "workspaces/acme/own/s1/f"
	_, err = client(cfg).PutObject(t.Context(), &aws3.PutObjectInput{
		Bucket: &bucket, Key: &name, Body: bytes.NewReader([]byte("half")), Metadata: map[string]string{"perdure-content": string(content)},
	})
	require.NoError(t, err)
	_, err = files.ReadFile(t.Context(), key("s1"), "", "f")
	require.ErrorIs(t, err, s3.ErrCorrupt)
}
