package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/constructs-go/constructs/v10"

	"github.com/perdure/perdure/internal/env"
)

// settings are all choices that a deployment has.
type settings struct {
	Stack     string
	Arch      string // arm64 or x86_64
	FrontDoor string // http or url

	FrontURL      string // where clients find the API, if not at the stack's own address
	StreamURL     string // where they find streams, likewise
	CORSOrigins   []string
	OpenAISecret  string // ARN
	OpenAIBaseURL string
	OpenAIModel   string

	CustomerFunctions []string       // ARNs of functions that tools may invoke
	Reserved          map[string]int // reserved concurrency by function
	AlarmEmail        string
	LogDays           int
	Keep              bool // data outlives the stack
	XRay              bool // traces, sampled

	RolloverSteps string
	SliceTurns    string
	PurgeAgain    string
	AllowPrivate  string

	Assets string // folder of the functions' binaries
}

// Values of settings.
const (
	archARM  = "arm64"
	archX86  = "x86_64"
	doorHTTP = "http" // an HTTP API
	doorURL  = "url"  // URLs of functions
)

// The keys of CDK's context, as in -c arch=x86_64.
const (
	keyStack             = "stack"
	keyArch              = "arch"
	keyFrontDoor         = "frontDoor"
	keyFrontURL          = "frontUrl"
	keyStreamURL         = "streamUrl"
	keyCORSOrigins       = "corsOrigins"
	keyOpenAISecret      = "openaiSecret"
	keyOpenAIBaseURL     = "openaiBaseUrl"
	keyOpenAIModel       = "openaiModel"
	keyCustomerFunctions = "customerFunctions"
	keyReserved          = "reserved"
	keyAlarmEmail        = "alarmEmail"
	keyLogDays           = "logDays"
	keyKeep              = "keep"
	keyXRay              = "xray"
	keyRolloverSteps     = "rolloverSteps"
	keySliceTurns        = "sliceTurns"
	keyPurgeAgain        = "purgeAgainSeconds"
	keyAllowPrivate      = "allowPrivate"
	keyAssets            = "assets"
)

func contextKeys() []string {
	return []string{
		keyStack, keyArch, keyFrontDoor, keyFrontURL, keyStreamURL, keyCORSOrigins, keyOpenAISecret, keyOpenAIBaseURL,
		keyOpenAIModel, keyCustomerFunctions, keyReserved, keyAlarmEmail, keyLogDays, keyKeep, keyXRay,
		keyRolloverSteps, keySliceTurns, keyPurgeAgain, keyAllowPrivate, keyAssets,
	}
}

var (
	stackName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,39}$`)
	ourKey      = regexp.MustCompile(`^[A-Za-z]+$`)
	functionARN = regexp.MustCompile(`^arn:[a-z-]+:lambda:[a-z0-9-]+:\d{12}:function:[A-Za-z0-9-_]+(:[A-Za-z0-9-_$]+)?$`)
	secretARN   = regexp.MustCompile(`^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@-]+$`)
)

// contextOf is CDK's context as a map. Values come as text from -c and as any
// JSON from cdk.json.
func contextOf(node constructs.Node) map[string]any {
	all, _ := node.GetAllContext(nil).(map[string]any)
	return all
}

// parseSettings reads the choices. An error names each wrong key and says what
// to write; a key that nobody knows is most likely misspelt, and an alarm that
// goes nowhere is found out too late.
func parseSettings(context map[string]any) (settings, error) {
	r := reader{context: context}
	r.knowsAll()
	set := settings{
		Stack:             r.text(keyStack, env.DefaultStack),
		Arch:              r.oneOf(keyArch, archARM, archX86),
		FrontDoor:         r.oneOf(keyFrontDoor, doorHTTP, doorURL),
		FrontURL:          strings.TrimSuffix(r.url(keyFrontURL), "/"),
		StreamURL:         strings.TrimSuffix(r.url(keyStreamURL), "/"),
		CORSOrigins:       r.list(keyCORSOrigins),
		OpenAISecret:      r.matching(keyOpenAISecret, secretARN, "the whole ARN of a secret"),
		OpenAIBaseURL:     r.url(keyOpenAIBaseURL),
		OpenAIModel:       r.text(keyOpenAIModel, ""),
		CustomerFunctions: r.list(keyCustomerFunctions),
		Reserved:          r.reserved(),
		AlarmEmail:        r.text(keyAlarmEmail, ""),
		LogDays:           r.days(),
		Keep:              r.flag(keyKeep, true),
		XRay:              r.flag(keyXRay, true),
		RolloverSteps:     r.count(keyRolloverSteps),
		SliceTurns:        r.count(keySliceTurns),
		PurgeAgain:        r.count(keyPurgeAgain),
		AllowPrivate:      r.allowPrivate(),
		Assets:            r.text(keyAssets, "bin/functions"),
	}
	if !stackName.MatchString(set.Stack) {
		r.wrong(keyStack, "a letter, then at most 39 letters, digits and hyphens")
	}
	for _, arn := range set.CustomerFunctions {
		if !functionARN.MatchString(arn) {
			r.wrong(keyCustomerFunctions, "ARNs of functions, with commas between them")
		}
		if ownFunction(set.Stack, arn) {
			r.wrong(keyCustomerFunctions, "functions of yours: the stack's own believe what they are sent, and a tool must not send it")
		}
	}
	return set, errors.Join(r.errs...)
}

// ownFunction says whether an ARN is that of one of the stack's functions.
func ownFunction(stack, arn string) bool {
	_, name, _ := strings.Cut(arn, ":function:")
	name, _, _ = strings.Cut(name, ":")
	role, of := strings.CutPrefix(name, stack+"-")
	return of && slices.Contains(env.FunctionNames(), role)
}

// reader takes values from a context and keeps what is wrong with them.
type reader struct {
	context map[string]any
	errs    []error
}

func (r *reader) wrong(key, write string) {
	r.errs = append(r.errs, fmt.Errorf("-c %s=%v: write %s", key, r.context[key], write))
}

// knowsAll refuses keys of our form that are none of ours. CDK's own contain
// colons, slashes or hyphens.
func (r *reader) knowsAll() {
	for key := range r.context {
		if ourKey.MatchString(key) && !slices.Contains(contextKeys(), key) {
			r.errs = append(r.errs, fmt.Errorf("-c %s: there is no such setting; there are %s", key, strings.Join(contextKeys(), ", ")))
		}
	}
}

func (r *reader) text(key, otherwise string) string {
	switch v := r.context[key].(type) {
	case nil:
		return otherwise
	case string:
		if v == "" {
			return otherwise
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

// oneOf takes one of some words; the first is the default.
func (r *reader) oneOf(key string, words ...string) string {
	v := r.text(key, words[0])
	if !slices.Contains(words, v) {
		r.wrong(key, strings.Join(words, " or "))
	}
	return v
}

func (r *reader) matching(key string, form *regexp.Regexp, write string) string {
	v := r.text(key, "")
	if v != "" && !form.MatchString(v) {
		r.wrong(key, write)
	}
	return v
}

func (r *reader) url(key string) string {
	return r.matching(key, regexp.MustCompile(`^https?://[^\s/@?#]+(/[^\s@?#]*)?$`), "http://host:port or https://host, without a user")
}

// list takes a JSON array, or text with commas.
func (r *reader) list(key string) []string {
	var items []string
	if array, ok := r.context[key].([]any); ok {
		for _, item := range array {
			items = append(items, fmt.Sprint(item))
		}
		return items
	}
	for item := range strings.SplitSeq(r.text(key, ""), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func (r *reader) flag(key string, otherwise bool) bool {
	v, err := strconv.ParseBool(r.text(key, strconv.FormatBool(otherwise)))
	if err != nil {
		r.wrong(key, "1 or 0")
	}
	return v
}

func (r *reader) allowPrivate() string {
	if r.flag(keyAllowPrivate, false) {
		return "1"
	}
	return ""
}

// count takes a positive number, as the text that a function reads.
func (r *reader) count(key string) string {
	v := r.text(key, "")
	if n, err := strconv.Atoi(v); v != "" && (err != nil || n < 1) {
		r.wrong(key, "a number above 0")
	}
	return v
}

func (r *reader) days() int {
	n, err := strconv.Atoi(r.text(keyLogDays, "30"))
	if err != nil || !slices.Contains(logDays(), n) {
		r.wrong(keyLogDays, "one of "+strings.Trim(fmt.Sprint(logDays()), "[]"))
	}
	return n
}

// reserved takes a list as in drive=50,api=20.
func (r *reader) reserved() map[string]int {
	reserved := map[string]int{}
	for _, pair := range r.list(keyReserved) {
		name, text, _ := strings.Cut(pair, "=")
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || !slices.Contains(env.FunctionNames(), name) {
			r.wrong(keyReserved, "function=number, with commas between them; functions are "+strings.Join(env.FunctionNames(), ", "))
			continue
		}
		reserved[name] = n
	}
	return reserved
}
