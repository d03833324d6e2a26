module github.com/perdure/perdure

go 1.26.0

require (
	github.com/aws/aws-cdk-go v0.0.0
	github.com/aws/aws-lambda-go v0.0.0
	github.com/aws/aws-sdk-go-v2 v0.0.0
	github.com/google/jsonschema-go v0.0.0
	github.com/stretchr/testify v0.0.0
	pgregory.net/rapid v0.0.0
)

replace (
	github.com/aws/aws-cdk-go => ./stub/cdk
	github.com/aws/aws-lambda-go => ./stub/lambda
	github.com/aws/aws-sdk-go-v2 => ./stub/aws
	github.com/google/jsonschema-go => ./stub/jsonschema
	github.com/stretchr/testify => ./stub/testify
	pgregory.net/rapid => ./stub/rapid
)
