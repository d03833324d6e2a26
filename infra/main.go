// Command infra is Perdure's CDK app: one stack that holds the session service.
//
// It says what there is and who may do what; what the functions do is not here.
// Each responsibility is a file with a construct and a struct that names what it
// needs; choices are made in settings.go, from CDK's context, and nowhere else.
// The state machine is asl/session.asl.json, which is read and not built.
//
// It may import the CDK, cdk-nag and internal/env, whose names the functions use
// too, and nothing else of this module.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	defer jsii.Close()
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false)})
	set, err := parseSettings(contextOf(app.Node()))
	if err != nil {
		return err
	}
	newStack(app, set)
	app.Synth(nil)
	return nil
}
