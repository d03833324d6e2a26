// Package secrets reads entries of AWS Secrets Manager.
//
// It caches nothing, writes nothing, and never puts what it reads into an error.
// It may import the AWS SDK and the host's errors.
package secrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/perdure/perdure/internal/host"
)

// Manager reads secrets. It is safe for concurrent use.
type Manager struct {
	client *secretsmanager.Client
}

// New makes a Manager. It asks nothing of AWS yet.
func New(cfg aws.Config) *Manager { return &Manager{secretsmanager.NewFromConfig(cfg)} }

// Secret returns the text of an entry by its name or ARN. host.ErrNotFound if
// there is none, or if it is about to be deleted.
func (m *Manager) Secret(ctx context.Context, name string) (string, error) {
	out, err := m.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: aws.String(name)})
	var gone *types.ResourceNotFoundException
	var going *types.InvalidRequestException
	switch {
	case errors.As(err, &gone), errors.As(err, &going):
		return "", fmt.Errorf("secret: %w: %w", host.ErrNotFound, err)
	case err != nil:
		return "", fmt.Errorf("secret: %w", err)
	case out.SecretString == nil:
		return "", fmt.Errorf("secret: %w: the entry holds bytes and no text", host.ErrNotFound)
	}
	return *out.SecretString, nil
}
