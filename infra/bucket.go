package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

type bucketProps struct {
	Keep bool
}

// newBucket holds blobs, checkpoints and workspaces. It has no versions: a blob
// never changes, and what is deleted must be gone.
func newBucket(scope constructs.Construct, id string, props bucketProps) awss3.Bucket {
	return awss3.NewBucket(scope, &id, &awss3.BucketProps{
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		EnforceSSL:        jsii.Bool(true),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		RemovalPolicy:     removal(props.Keep),
		LifecycleRules: &[]*awss3.LifecycleRule{{
			Id:                                  jsii.String("uploads-that-nobody-finished"),
			AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(1)),
		}},
	})
}
