package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/lambda"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/adapter/secrets"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/adapter/sqs"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// Times of connections to AWS. Within a region they come about at once or not at
// all, and what does not is tried again.
const (
	dialWithin   = 2 * time.Second
	tlsWithin    = 3 * time.Second
	answerWithin = 20 * time.Second
)

// triesMost is how often a request is sent, where an adapter does not say so
// itself.
const triesMost = 4

// awsConfig is that of every client. Only the environment is asked: in a function
// there is no file and no machine's metadata service, and looking for them takes
// time.
func awsConfig(ctx context.Context) (aws.Config, error) {
	client := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialWithin }).
		WithTransportOptions(func(t *http.Transport) {
			t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = tlsWithin, answerWithin
		})
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(client), config.WithRetryMaxAttempts(triesMost),
		config.WithSharedConfigFiles([]string{}), config.WithSharedCredentialsFiles([]string{}),
		config.WithEC2IMDSClientEnableState(imds.ClientDisabled),
	)
	if err != nil {
		return cfg, fmt.Errorf("the settings of AWS's clients cannot be read: %w", err)
	}
	if cfg.Region == "" {
		return cfg, errors.New("AWS_REGION is not set: Lambda sets it in every function; elsewhere set it to the stack's region")
	}
	return cfg, nil
}

// connect is cloud.Connect.
func connect(ctx context.Context, set env.Function) (cloud.Ports, error) {
	cfg, err := awsConfig(ctx)
	if err != nil {
		return cloud.Ports{}, err
	}
	p := cloud.Ports{Secrets: secrets.New(cfg), Queues: sqs.New(cfg), Functions: lambda.Open(cfg)}
	if set.Table == "" || set.Bucket == "" || set.Machine == "" {
		return p, nil // this function has none of them; cloud knows which needs what
	}
	waker, err := sfn.NewWaker(cfg, set.Machine)
	if err != nil {
		return p, fmt.Errorf("%s: %w", env.Machine, err)
	}
	table := dynamo.New(dynamo.NewClient(cfg), set.Table, dynamo.Options{})
	store, err := s3.Open(cfg, s3.Options{Bucket: set.Bucket, Log: table, Pointer: cloud.Pointer(table)})
	if err != nil {
		return p, err
	}
	workspaces, err := s3.OpenWorkspaces(cfg, set.Bucket)
	if err != nil {
		return p, err
	}
	p.Log, p.Blobs, p.Checkpoints, p.Stash = store, store, store, table
	p.Waker, p.Workspaces = waker, workspaces
	// Items first: what is left of a session that nobody can read is its content
	// all the same, and objects are found by their prefix alone.
	p.Purge = func(ctx context.Context, key host.Key, inc string) error {
		return errors.Join(table.Purge(ctx, key, inc), store.Purge(ctx, key, inc))
	}
	frames := dynamo.NewFrames(table, dynamo.FramesOptions{})
	p.Frames, p.Drain, p.Live = frames, frames.Drain, dynamo.NewLive(table, dynamo.LiveOptions{})
	return p, nil
}
