package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// synthesized is a stack as CloudFormation gets it.
type synthesized struct {
	Template template
	Text     []byte
	// Checks is the report of cdk-nag, a row for each rule and resource.
	Checks [][]string
}

type template struct {
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
}

type resource struct {
	Type           string
	Properties     map[string]any
	DeletionPolicy string
}

// Making a stack takes a second, so the tests share four: one of defaults, one with
// functions' URLs in front, one for pages in browsers, and one where everything is
// chosen.
var (
	defaults = sync.OnceValues(func() (synthesized, error) { return synth(nil) })
	atURLs   = sync.OnceValues(func() (synthesized, error) { return synth(map[string]any{keyFrontDoor: doorURL}) })
	pages    = sync.OnceValues(func() (synthesized, error) {
		return synth(map[string]any{keyCORSOrigins: "https://console.example.com"})
	})
	chosen = sync.OnceValues(func() (synthesized, error) { return synth(everythingChosen()) })
)

const (
	someSecret   = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:models/openai-AbCdEf"
	someFunction = "arn:aws:lambda:eu-west-1:111122223333:function:weather"
)

// everythingChosen has values of each kind that -c and cdk.json can give.
func everythingChosen() map[string]any {
	return map[string]any{
		keyStack: "other", keyArch: archX86, keyFrontDoor: doorURL, keyFrontURL: "https://agents.example.com/", keyStreamURL: "https://stream.example.com",
		keyCORSOrigins: "https://console.example.com", keyOpenAISecret: someSecret, keyOpenAIBaseURL: "https://models.example.com/v1",
		keyOpenAIModel: "large", keyCustomerFunctions: []any{someFunction}, keyReserved: "drive=50, api=20",
		keyAlarmEmail: "ops@example.com", keyLogDays: 7.0, keyKeep: false, keyXRay: "0", keyRolloverSteps: "5", keySliceTurns: 1.0,
		keyPurgeAgain: "2", keyAllowPrivate: true,
	}
}

// stackOf returns a shared stack; without Node the test is skipped, and fails
// where everything must be there.
func stackOf(t *testing.T, stack func() (synthesized, error)) synthesized {
	t.Helper()
	const missing = "the CDK needs Node 20 or newer, and there is no node in PATH"
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing + ": install it to run this test")
	}
	s, err := stack()
	require.NoError(t, err)
	return s
}

// oneKernel lets one test at a time speak to the CDK, which is one process of Node.
var oneKernel sync.Mutex

// synth makes a stack from stand-ins of the functions, as cdk synth does, and
// lets cdk-nag look at it.
func synth(choices map[string]any) (s synthesized, err error) {
	oneKernel.Lock()
	defer oneKernel.Unlock()
	dir, err := os.MkdirTemp("", "perdure-infra-")
	if err != nil {
		return s, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	context, err := contextFile()
	if err != nil {
		return s, err
	}
	maps.Copy(context, choices)
	context[keyAssets] = filepath.Join(dir, "functions")
	for _, name := range env.FunctionNames() {
		if err := standIn(filepath.Join(dir, "functions", name)); err != nil {
			return s, err
		}
	}
	out := filepath.Join(dir, "out")
	app := awscdk.NewApp(&awscdk.AppProps{AnalyticsReporting: jsii.Bool(false), Context: &context, Outdir: &out})
	set, err := parseSettings(contextOf(app.Node()))
	if err != nil {
		return s, err
	}
	newStack(app, set)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}), nil)
	if err := write(app); err != nil {
		return s, err
	}
	if s.Text, err = os.ReadFile(filepath.Join(out, set.Stack+".template.json")); err != nil {
		return s, err
	}
	if s.Checks, err = readChecks(out); err != nil {
		return s, err
	}
	return s, json.Unmarshal(s.Text, &s.Template)
}

func readChecks(out string) ([][]string, error) {
	found, err := filepath.Glob(filepath.Join(out, "AwsSolutions-*-NagReport.csv"))
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("cdk-nag left %d reports (%w)", len(found), err)
	}
	report, err := os.Open(found[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = report.Close() }()
	return csv.NewReader(report).ReadAll()
}

// write turns the panic by which the CDK says that a check failed into an error.
// What failed it has printed.
func write(app awscdk.App) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(fmt.Sprint(v))
		}
	}()
	app.Synth(nil)
	return nil
}

func standIn(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bootstrap"), []byte(dir), 0o600)
}

// contextFile is the context of cdk.json, whose flags change what the CDK makes.
func contextFile() (map[string]any, error) {
	text, err := os.ReadFile(filepath.Join("..", "cdk.json"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Context map[string]any `json:"context"`
	}
	err = json.Unmarshal(text, &file)
	return file.Context, err
}
