package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// addStreamURL is where viewers read events as they happen: API Gateway's HTTP
// APIs cannot stream. The function itself asks for the key, as behind the API.
func addStreamURL(stream awslambda.Function, origins []string) awslambda.FunctionUrl {
	return addURL(stream, awslambda.InvokeMode_RESPONSE_STREAM, origins)
}

// addFrontURL is the front door where there is no API Gateway: one function
// answers everything.
func addFrontURL(api awslambda.Function, origins []string) awslambda.FunctionUrl {
	return addURL(api, awslambda.InvokeMode_BUFFERED, origins)
}

func addURL(function awslambda.Function, mode awslambda.InvokeMode, origins []string) awslambda.FunctionUrl {
	options := &awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE, InvokeMode: mode}
	if len(origins) > 0 {
		options.Cors = &awslambda.FunctionUrlCorsOptions{
			AllowedOrigins: jsii.Strings(origins...),
			AllowedMethods: &[]awslambda.HttpMethod{awslambda.HttpMethod_ALL},
			AllowedHeaders: jsii.Strings(corsHeaders()...),
			MaxAge:         seconds(corsSeconds),
		}
	}
	return function.AddFunctionUrl(options)
}
