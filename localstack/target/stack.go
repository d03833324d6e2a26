package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/perdure/perdure/internal/env"
)

// Stack is this repository's stack, deployed to a target.
type Stack struct {
	Target
	// Outputs are those of the stack, by name.
	Outputs map[string]string
	// API and Stream are base URLs without a slash at the end, to be asked with
	// HTTP's client, which finds them.
	API, Stream string
	// Key is the admin's.
	Key  string
	HTTP *http.Client
}

// Deployment says how a stack is to differ from the one that everybody gets.
type Deployment struct {
	// Context is the CDK's, as in -c key=value. "stack" is the stack's name: the
	// same one again is an update, which keeps what is in it.
	Context map[string]string
	// LDFlags are for the linker. Functions linked with others are another
	// build, which an update replaces even where no source has changed.
	LDFlags string
}

// deployed is the stack of this test binary.
var deployed = sync.OnceValues(func() (*Stack, error) {
	//nolint:forbidigo // it is every test's, and outlives the one that comes first
	ctx := context.Background()
	at, err := find(ctx)
	if err != nil {
		return nil, err
	}
	if name := os.Getenv(env.StackOutputs); name != "" {
		return open(ctx, at, name)
	}
	return deploy(ctx, at, Deployment{})
})

// Deployed returns the stack on the target. If PERDURE_STACK_OUTPUTS names a
// file with the outputs of one, it is that; otherwise it is deployed, once for a
// test binary. A machine without what that takes skips the test, or fails it
// where CI is "true".
func Deployed(tb testing.TB) *Stack {
	tb.Helper()
	stack, err := deployed()
	need(tb, err)
	return stack
}

// Deploy brings a stack of one's own to a target, or another build to a stack.
func Deploy(tb testing.TB, at Target, d Deployment) *Stack {
	tb.Helper()
	stack, err := deploy(tb.Context(), at, d)
	need(tb, err)
	return stack
}

// deploy runs deploy.py.
func deploy(ctx context.Context, at Target, d Deployment) (*Stack, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if err := look(root); err != nil {
		return nil, err
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		return nil, missingError{"python3 is not installed"}
	}
	folder, err := os.MkdirTemp("", "perdure-stack-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	outputs := filepath.Join(folder, "outputs.json")
	endpoint := at.Endpoint
	if endpoint == "" {
		endpoint = "aws"
	}
	args := []string{filepath.Join(root, "localstack", "deploy.py"), "--endpoint", endpoint, "--outputs", outputs, "--ldflags=" + d.LDFlags}
	given := maps.Clone(d.Context)
	if given == nil {
		given = map[string]string{}
	}
	if _, named := given["stack"]; !named && at.Endpoint == "" {
		// Nobody's own stack in that account.
		given["stack"], given["keep"] = "perdure-test", "0"
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		args = append(args, "-c", key+"="+given[key])
	}
	said, err := exec.CommandContext(ctx, python, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == statusMissing {
		return nil, missingError{strings.TrimSpace(string(said))}
	}
	if err != nil {
		return nil, fmt.Errorf("the stack cannot be deployed: %w\n%s", err, said)
	}
	return open(ctx, at, outputs)
}

// open reads the outputs of a stack, and its key.
func open(ctx context.Context, at Target, name string) (*Stack, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var stacks map[string]map[string]string
	if err = json.Unmarshal(data, &stacks); err != nil || len(stacks) != 1 {
		return nil, fmt.Errorf("%s: want the outputs of one stack, as cdk deploy --outputs-file writes them (%w)", name, err)
	}
	s := &Stack{Target: at, HTTP: HTTP()}
	for _, outputs := range stacks {
		s.Outputs = outputs
	}
	if s.API, err = at.Reach(s.Outputs["ApiUrl"]); err != nil {
		return nil, err
	}
	if s.Stream, err = at.Reach(s.Outputs["StreamUrl"]); err != nil {
		return nil, err
	}
	secret := s.Outputs["AdminKeySecret"]
	got, err := secretsmanager.NewFromConfig(at.Config).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
	if err != nil {
		return nil, fmt.Errorf("the admin's key: %w", err)
	}
	var key struct {
		ID     string `json:"id"`
		Secret string `json:"secret"`
	}
	if err = json.Unmarshal([]byte(*got.SecretString), &key); err != nil {
		return nil, fmt.Errorf("the secret with the admin's key holds no JSON: %w", err)
	}
	s.Key = "pk_" + key.ID + "_" + key.Secret
	return s, nil
}

// Reach turns the address that a function would have on AWS into the one that it
// has on the target.
func (t Target) Reach(address string) (string, error) {
	at, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil {
		return "", err
	}
	if host, amazon := strings.CutSuffix(at.Host, ".on.aws"); amazon && t.Endpoint != "" {
		endpoint, err := url.Parse(t.Endpoint)
		if err != nil {
			return "", err
		}
		at.Scheme, at.Host = endpoint.Scheme, host+".localhost:"+endpoint.Port()
	}
	return at.String(), nil
}

// Ask sends a request to the stack's API as the admin. The body is JSON, or
// nothing; the answer is the caller's to close.
func (s *Stack) Ask(ctx context.Context, method, path, idempotencyKey string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.API+path, strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+s.Key)
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	if idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", idempotencyKey)
	}
	return s.HTTP.Do(request)
}
