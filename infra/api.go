package main

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// What the API lets through in a second, and at once, over all its clients.
const (
	apiRate  = 500
	apiBurst = 1000
)

type apiProps struct {
	Stack string
	CORS  []string
	Logs  logsProps
}

// newAPI is the HTTP API without its routes: the functions are told its address,
// and its routes need the functions.
func newAPI(scope constructs.Construct, id string, props apiProps) awsapigatewayv2.HttpApi {
	scope = constructs.NewConstruct(scope, &id)
	api := awsapigatewayv2.NewHttpApi(scope, jsii.String("Http"), &awsapigatewayv2.HttpApiProps{
		ApiName:            &props.Stack,
		CreateDefaultStage: jsii.Bool(false),
		CorsPreflight:      corsOf(props.CORS),
	})
	logs := newLogGroup(scope, "AccessLog", "/aws/vendedlogs/"+props.Stack+"/access", props.Logs)
	awsapigatewayv2.NewCfnStage(scope, jsii.String("Stage"), &awsapigatewayv2.CfnStageProps{
		ApiId:      api.ApiId(),
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
			ThrottlingRateLimit:  jsii.Number(apiRate),
			ThrottlingBurstLimit: jsii.Number(apiBurst),
		},
		AccessLogSettings: &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
			DestinationArn: logs.LogGroupArn(),
			Format:         jsii.String(accessLog()),
		},
	})
	return api
}

// accessLog is the form of a line. It has the route and not the path: a path may
// hold a promise's token, which is as good as a key.
func accessLog() string {
	text, err := json.Marshal(map[string]string{
		"requestId":          "$context.requestId",
		"time":               "$context.requestTimeEpoch",
		"ip":                 "$context.identity.sourceIp",
		"method":             "$context.httpMethod",
		"route":              "$context.routeKey",
		"status":             "$context.status",
		"bytes":              "$context.responseLength",
		"latencyMs":          "$context.responseLatency",
		"functionStatus":     "$context.integrationStatus",
		"functionLatencyMs":  "$context.integrationLatency",
		"functionError":      "$context.integrationErrorMessage",
		"functionInvocation": "$context.integration.requestId",
	})
	if err != nil {
		panic(err) // a map of texts
	}
	return string(text)
}

func corsOf(origins []string) *awsapigatewayv2.CorsPreflightOptions {
	if len(origins) == 0 {
		return nil
	}
	return &awsapigatewayv2.CorsPreflightOptions{
		AllowOrigins:  jsii.Strings(origins...),
		AllowMethods:  corsMethods[awsapigatewayv2.CorsHttpMethod](),
		AllowHeaders:  jsii.Strings(corsHeaders()...),
		ExposeHeaders: jsii.Strings(corsExposed()...),
		MaxAge:        seconds(corsSeconds),
	}
}

// addRoutes sends reads to one function and all else to the other, so that long
// polls never take the place of an admission.
func addRoutes(api awsapigatewayv2.HttpApi, to functions) {
	read := awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Read"), to.Read, nil)
	for _, path := range []string{"/", "/{proxy+}"} {
		api.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
			Path:        &path,
			Methods:     &[]awsapigatewayv2.HttpMethod{awsapigatewayv2.HttpMethod_GET},
			Integration: read,
		})
	}
	awsapigatewayv2.NewHttpRoute(api, jsii.String("Else"), &awsapigatewayv2.HttpRouteProps{
		HttpApi:     api,
		RouteKey:    awsapigatewayv2.HttpRouteKey_DEFAULT(),
		Integration: awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Api"), to.API, nil),
	})
}
