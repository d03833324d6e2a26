package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

// secretLength is that of the generated texts: 64 letters and digits, 380 bits.
const secretLength = 64

// punctuation is what AWS means by that word, for a target that knows only how to
// leave out characters by name.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

// secrets are the two that the stack makes for itself. Their names are made up by
// CloudFormation, which keeps them out of the prefix that tools may name.
type secrets struct {
	Key, Signing awssecretsmanager.Secret
}

func newSecrets(scope constructs.Construct, id string) secrets {
	scope = constructs.NewConstruct(scope, &id)
	return secrets{
		Key:     newSecret(scope, "Key", "The admin's key: pk_"+env.SecretAdmin+"_ and the secret.", env.SecretAdmin),
		Signing: newSecret(scope, "Signing", "Root of the keys that sign promise tokens and cursors.", env.SecretSigningKey),
	}
}

func newSecret(scope constructs.Construct, id, description, key string) awssecretsmanager.Secret {
	return awssecretsmanager.NewSecret(scope, &id, &awssecretsmanager.SecretProps{
		Description: &description,
		GenerateSecretString: &awssecretsmanager.SecretStringGenerator{
			SecretStringTemplate: jsii.String(fmt.Sprintf("{%q:%q}", env.SecretID, key)),
			GenerateStringKey:    jsii.String(env.SecretText),
			PasswordLength:       jsii.Number(secretLength),
			ExcludePunctuation:   jsii.Bool(true),
			ExcludeCharacters:    jsii.String(punctuation),
		},
	})
}

// toolSecrets is the prefix of the names that tools and providers may name.
func toolSecrets(stack string) string {
	return "perdure/" + stack + "/"
}
