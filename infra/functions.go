package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/perdure/perdure/internal/env"
)

// functionSpec says what one function is like.
type functionSpec struct {
	Name        string
	Description string
	Memory      float64 // MB; processor time grows with it
	Timeout     float64 // seconds
}

// The functions. Those that wait for others most of their time are small; api and
// drive fold states and are worth more processor. An HTTP API waits 30 s at most,
// a function URL as long as its function takes, and clients should see no difference;
// a state of the machine waits 930 s. A command of the inbox that fails is tried again
// after six times its function's time, and its session's next ones wait for that.
var (
	specAPI     = functionSpec{env.FunctionAPI, "Admits what clients ask.", 512, 29}
	specRead    = functionSpec{env.FunctionRead, "Answers GETs and long polls.", 512, 29}
	specStream  = functionSpec{env.FunctionStream, "Streams events to viewers.", 256, 900}
	specInbox   = functionSpec{env.FunctionInbox, "Admits commands that came by queue.", 256, 20}
	specDrive   = functionSpec{env.FunctionDrive, "Drives a session: model calls and tools that answer soon.", 512, 900}
	specTool    = functionSpec{env.FunctionTool, "Runs one tool call that needs a function of its own.", 512, 900}
	specPark    = functionSpec{env.FunctionPark, "Keeps the token of an execution that waits.", 256, 30}
	specDeliver = functionSpec{env.FunctionDeliver, "Sends what must leave a session.", 256, 60}
	specSweep   = functionSpec{env.FunctionSweep, "Finds what is owed and was lost; deletes what was deleted.", 512, 300}
)

type functionsProps struct {
	Function    functionProps // what they share
	Environment environmentProps
	Grants      grants
	Reserved    map[string]int
	CORS        []string
}

// functions are all nine, and the addresses of those that have one.
type functions struct {
	API, Read, Stream, Inbox, Drive, Tool, Park, Deliver, Sweep awslambda.Function

	StreamURL *string
	// FrontURL is that of api, ReadURL that of read; nil if there is an API in front.
	FrontURL, ReadURL *string
}

// newFunctions gives each function what it needs to do and no more. Those that
// have an address come first, because no function can be told its own. Where URLs
// are the front door api and stream do not know it, and need not: addresses at
// which promises are settled are made by drive and tool, which run the calls.
func newFunctions(scope constructs.Construct, id string, props functionsProps) functions {
	scope = constructs.NewConstruct(scope, &id)
	g, around := props.Grants, props.Environment
	with := func(id string, spec functionSpec, may ...statements) awslambda.Function {
		own := props.Function
		own.Spec, own.Reserved, own.Environment = spec, props.Reserved[spec.Name], environment(around)
		for _, list := range may {
			own.May = append(own.May, list...)
		}
		return newFunction(scope, id, own)
	}
	admit := func(more ...statements) []statements {
		// Who creates a session and is not the first takes its own content back.
		return append([]statements{g.readTable(), g.writeTable(), g.readBlobs(), g.writeBlobs(), g.deleteBlobs(), g.wake(), g.sign()}, more...)
	}
	look := []statements{g.readTable(), g.watch(), g.readBlobs(), g.sign(), g.checkKeys()}

	var f functions
	f.Stream = with("Stream", specStream, look...)
	f.StreamURL = addStreamURL(f.Stream, props.CORS).Url()
	around.StreamURL = firstOf(around.StreamURL, f.StreamURL)
	f.API = with("Api", specAPI, admit(g.checkKeys())...)
	atURLs := around.Settings.FrontDoor == doorURL
	if atURLs {
		f.FrontURL = addFrontURL(f.API, props.CORS).Url()
		around.PublicURL = firstOf(around.PublicURL, f.FrontURL)
	}
	f.Read = with("Read", specRead, look...)
	if atURLs {
		f.ReadURL = addFrontURL(f.Read, props.CORS).Url()
	}
	f.Inbox = with("Inbox", specInbox, admit()...)
	f.Drive = with("Drive", specDrive, admit(g.callTools(), g.send(), g.callModels())...)
	f.Tool = with("Tool", specTool, admit(g.callTools(), g.send())...)
	f.Park = with("Park", specPark, g.readTable(), g.writeTable(), g.readBlobs(), g.wake())
	f.Deliver = with("Deliver", specDeliver, g.deliver())
	f.Sweep = with("Sweep", specSweep, g.readTable(), g.writeTable(), g.readBlobs(), g.deleteBlobs(), g.wake(), g.stop())
	return f
}

// firstOf is what the operator says, or what the stack has.
func firstOf(chosen, own *string) *string {
	if *chosen != "" {
		return chosen
	}
	return own
}
