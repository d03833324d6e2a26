// Package target finds an endpoint that answers as AWS does, for tests.
//
// A target is an endpoint and a table of what it can show; nothing in the tests
// knows which it is. A test asks for a target, says what it needs to see and is
// skipped with a reason where that cannot be seen.
//
//   - PERDURE_AWS_ENDPOINT=aws is AWS itself, by the default chain of settings.
//   - PERDURE_AWS_ENDPOINT=http://… is that endpoint, with test credentials.
//   - Otherwise a server is started, once for a test binary, and ends with the
//     binary, however that ends: localstack/emulator.py, or LocalStack itself
//     (localstack/host) where PERDURE_AWS_TARGET=localstack.
//
// The package knows nothing of Perdure's own tables and queues. It is for tests
// alone, and may import the standard library, testify, the AWS SDK and
// internal/env.
package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/perdure/perdure/internal/env"
)

// Region is where everything is on targets other than AWS itself.
const Region = "us-east-1"

// Target is where tests find AWS, or what stands for it.
type Target struct {
	// Endpoint is the URL of all services, empty on AWS itself.
	Endpoint string
	// Can says what can be seen there.
	Can Capabilities
	// Config is how to reach it. Its retries are the SDK's own.
	Config aws.Config
}

// AWS returns a configuration for the target.
func AWS(tb testing.TB) aws.Config {
	tb.Helper()
	return Get(tb).Config.Copy()
}

// Get returns the target. A machine that lacks what the emulator needs skips
// the test and says so; where CI is "true" that is a failure.
func Get(tb testing.TB) Target {
	tb.Helper()
	t, err := find(tb.Context())
	need(tb, err)
	return t
}

func find(ctx context.Context) (Target, error) {
	switch endpoint := strings.TrimRight(os.Getenv(env.AWSEndpoint), "/"); endpoint {
	case "":
		p, err := shared()
		if err != nil {
			return Target{}, err
		}
		wanted, err := chosen()
		return at(p.Endpoint, wanted.can), err
	case "aws":
		settings, err := config.LoadDefaultConfig(ctx)
		return Target{Config: settings, Can: amazon}, err
	default:
		can, err := recognise(ctx, endpoint)
		return at(endpoint, can), err
	}
}

// at makes a target of an endpoint that takes test credentials.
func at(endpoint string, can Capabilities) Target {
	return Target{
		Endpoint: endpoint, Can: can,
		Config: aws.Config{
			Region:       Region,
			Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
			BaseEndpoint: aws.String(endpoint),
			HTTPClient:   &http.Client{Transport: transport()},
		},
	}
}

// HTTP returns a client that finds every name under localhost on this machine,
// whatever the resolver thinks of such names: an API is reached as
// http://<id>.execute-api.localhost:<port>.
func HTTP() *http.Client { return &http.Client{Transport: transport(), Timeout: patience} }

// patience is how long one request may take before it is given up. It is no
// measure of anything; a streamed answer may last as long as its function.
const patience = 15 * time.Minute

func transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Transport{
		MaxIdleConnsPerHost: 64,
		// Shorter than an emulator keeps an idle connection: one that is closed in the
		// moment of its next use loses an answer, and what is asked again then may be
		// there already.
		IdleConnTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			if host == "localhost" || strings.HasSuffix(host, ".localhost") {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			return dialer.DialContext(ctx, network, address)
		},
	}
}

// recognise asks an endpoint what it is.
func recognise(ctx context.Context, endpoint string) (Capabilities, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/_localstack/health", http.NoBody)
	if err != nil {
		return other, err
	}
	client := HTTP()
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return other, fmt.Errorf("nothing answers at the endpoint that %s names: %w", env.AWSEndpoint, err)
	}
	defer response.Body.Close()
	var said struct {
		Edition string `json:"edition"`
	}
	if json.NewDecoder(response.Body).Decode(&said) != nil {
		return other, nil
	}
	switch said.Edition {
	case "perdure": // by localstack/emulator.py
		return emulated, nil
	case "community": // by localstack/host, and LocalStack's own free image of 4.14.0
		return localstack, nil
	default:
		return other, nil
	}
}

// need stops a test for want of something on this machine.
func need(tb testing.TB, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if message := fmt.Sprintf("there is no AWS to test against: %s", err); os.Getenv("CI") == "true" || !isMissing(err) {
		tb.Fatal(message)
	} else {
		tb.Skip(message)
	}
}
