package main

import (
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

type environmentProps struct {
	Grants    grants
	PublicURL *string
	StreamURL *string
	Settings  settings
}

// environment is what functions find in theirs: every name that internal/env has
// for them. An empty value is as good as none.
func environment(props environmentProps) map[string]*string {
	g, set := props.Grants, props.Settings
	return map[string]*string{
		env.Table:         g.Table.TableName(),
		env.Bucket:        g.Bucket.BucketName(),
		env.Machine:       g.Machine.ARN,
		env.Inbox:         g.Queues.Inbox.QueueUrl(),
		env.Outbox:        g.Queues.Outbox.QueueUrl(),
		env.Work:          g.Queues.Work.QueueUrl(),
		env.KeySecret:     g.Secrets.Key.SecretArn(),
		env.SigningSecret: g.Secrets.Signing.SecretArn(),
		env.OpenAISecret:  &set.OpenAISecret,
		env.OpenAIBaseURL: &set.OpenAIBaseURL,
		env.OpenAIModel:   &set.OpenAIModel,
		env.PublicURL:     props.PublicURL,
		env.StreamURL:     props.StreamURL,
		env.Secrets:       jsii.String(toolSecrets(set.Stack)),
		env.RolloverSteps: &set.RolloverSteps,
		env.SliceTurns:    &set.SliceTurns,
		env.PurgeAgain:    &set.PurgeAgain,
		env.AllowPrivate:  &set.AllowPrivate,
	}
}
