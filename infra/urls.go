package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// addStreamURL is where viewers read events as they happen: API Gateway's HTTP
// APIs cannot stream.
func addStreamURL(stream awslambda.Function, origins []string) awslambda.FunctionUrl {
	return addURL(stream, awslambda.InvokeMode_RESPONSE_STREAM, origins)
}

// addFrontURL is an address of api or read where no API Gateway is in front.
func addFrontURL(function awslambda.Function, origins []string) awslambda.FunctionUrl {
	return addURL(function, awslambda.InvokeMode_BUFFERED, origins)
}

// addURL lets everybody in, and the function itself asks for the key, as behind an
// HTTP API. AWS_IAM would not do: its signature rides in the header Authorization,
// where clients have their key. The CDK adds both permissions that a URL needs
// since October 2025, to call it and to invoke the function by it:
// https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html.
func addURL(function awslambda.Function, mode awslambda.InvokeMode, origins []string) awslambda.FunctionUrl {
	options := &awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE, InvokeMode: mode}
	if len(origins) > 0 {
		options.Cors = &awslambda.FunctionUrlCorsOptions{
			AllowedOrigins: jsii.Strings(origins...),
			AllowedMethods: corsMethods[awslambda.HttpMethod](),
			AllowedHeaders: jsii.Strings(corsHeaders()...),
			ExposedHeaders: jsii.Strings(corsExposed()...),
			MaxAge:         seconds(corsSeconds),
		}
	}
	return function.AddFunctionUrl(options)
}
