// Package env names every variable of the environment that this project reads,
// once, and turns values into settings.
//
// It reads nothing by itself: who wants settings hands it a lookup, which in a
// program is os.LookupEnv. It knows nothing of what the settings are for. It is
// a leaf: it may import the standard library only.
package env

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Names of variables.
const (
	Addr         = "PERDURE_ADDR"
	Data         = "PERDURE_DATA"
	Open         = "PERDURE_OPEN"
	AllowPrivate = "PERDURE_ALLOW_PRIVATE"
	Log          = "PERDURE_LOG"
	// StreamSeconds is the server's; a function ends its streams before it is
	// ended itself.
	StreamSeconds = "PERDURE_STREAM_SECONDS"
	URL           = "PERDURE_URL"
	Key           = "PERDURE_KEY"

	OpenAIKey     = "OPENAI_API_KEY"
	OpenAIBaseURL = "OPENAI_BASE_URL"
	OpenAIModel   = "OPENAI_MODEL"
)

// Names of variables that infra sets for the functions. Secrets are named, never
// carried: what an environment holds is shown to whoever may read a function's
// configuration.
const (
	Table         = "PERDURE_TABLE"
	Bucket        = "PERDURE_BUCKET"
	Machine       = "PERDURE_MACHINE"
	Inbox         = "PERDURE_INBOX"
	Outbox        = "PERDURE_OUTBOX"
	Work          = "PERDURE_WORK"
	KeySecret     = "PERDURE_KEY_SECRET"
	SigningSecret = "PERDURE_SIGNING_SECRET"
	OpenAISecret  = "PERDURE_OPENAI_SECRET"
	PublicURL     = "PERDURE_PUBLIC_URL"
	StreamURL     = "PERDURE_STREAM_URL"
	Secrets       = "PERDURE_SECRETS"
	RolloverSteps = "PERDURE_ROLLOVER_STEPS"
	SliceTurns    = "PERDURE_SLICE_TURNS"
	PurgeAgain    = "PERDURE_PURGE_AGAIN_SECONDS"
)

// prefix is what all names have that are ours alone.
const prefix = "PERDURE_"

// Variable is what docs/VARIABLES.md says of one variable; its texts are in
// Markdown.
type Variable struct {
	Name    string
	Owner   string // who reads it
	Default string
	Purpose string
}

// Owners of variables.
const (
	OwnerServer    = "The server"
	OwnerCommand   = "The commands"
	OwnerFunctions = "The functions"
	OwnerTests     = "Tests"
)

// Defaults.
const (
	DefaultAddr     = "127.0.0.1:7337"
	DefaultModel    = "gpt-5-mini"
	defaultDataName = ".perdure"
)

// Variables lists all of them, in the order of the documentation. A name that
// two owners read is there for each.
func Variables() []Variable {
	return slices.Concat(localVariables(), functionVariables(), testVariables())
}

func localVariables() []Variable {
	return []Variable{
		{Addr, OwnerServer, "`" + DefaultAddr + "`", "Address that `perdure serve` listens on. Port 0 takes a free one."},
		{Data, OwnerServer, "`~/" + defaultDataName + "`", "Folder with everything the server keeps: database, blobs, workspaces, secrets and the local key, which the commands find there too."},
		{Open, OwnerServer, "`0`", "`1` lets everyone in without a key, as an admin. On a loopback address only: anywhere else the server does not start."},
		{AllowPrivate, OwnerServer, "`1` on a loopback address, else `0`", "Whether tools and model providers may be at loopback, private and link-local addresses. At metadata services of clouds never."},
		{Log, OwnerServer, "`text`", "Form of the log on standard error: `text` or `json`."},
		{StreamSeconds, OwnerServer, "no limit", "Seconds after which a stream asks its client to come again. For proxies that cut long answers off."},
		{OpenAIKey, OwnerServer, "none", "Key of the provider `openai`. With it, sessions without a model of their own get that provider."},
		{OpenAIBaseURL, OwnerServer, "none", "A server that speaks OpenAI's protocol (Ollama, vLLM, LM Studio, …). With a key it is where `openai` is; without one it is the provider `openai-compatible`, which sessions without a model of their own then get."},
		{OpenAIModel, OwnerServer, "`" + DefaultModel + "`", "Model of sessions without one of their own, where one of the two above is set."},
		{URL, OwnerCommand, "`http://` and `" + Addr + "`", "Server that the commands talk to."},
		{Key, OwnerCommand, "the local key, on this machine", "Key that the commands send."},
	}
}

func functionVariables() []Variable {
	return []Variable{
		{Table, OwnerFunctions, "set by the stack", "Name of the table."},
		{Bucket, OwnerFunctions, "set by the stack", "Name of the bucket."},
		{Machine, OwnerFunctions, "set by the stack", "ARN of the state machine."},
		{Inbox, OwnerFunctions, "set by the stack", "URL of the queue of commands."},
		{Outbox, OwnerFunctions, "set by the stack", "URL of the queue of deliveries."},
		{Work, OwnerFunctions, "set by the stack", "URL of the queue that outside workers take calls from."},
		{KeySecret, OwnerFunctions, "set by the stack", "Secrets Manager entry with the admin's key: `{\"id\": \"admin\", \"secret\": \"…\"}`, and the key is `pk_admin_…`."},
		{SigningSecret, OwnerFunctions, "set by the stack", "Secrets Manager entry with the root of the keys that sign promise tokens and cursors."},
		{OpenAISecret, OwnerFunctions, "none", "Secrets Manager entry with the key of the provider `openai`, as plain text; `-c openaiSecret=ARN`."},
		{OpenAIBaseURL, OwnerFunctions, "none", "As for the server; `-c openaiBaseUrl=URL`."},
		{OpenAIModel, OwnerFunctions, "`" + DefaultModel + "`", "As for the server; `-c openaiModel=NAME`."},
		{PublicURL, OwnerFunctions, "the stack's `ApiUrl`", "Where the world finds the API: addresses at which promises are settled begin with it; `-c frontUrl=URL`. With `-c frontDoor=url` and no `frontUrl` `api`, which cannot be told its own address, and `stream`, which is there before it, have none: neither makes such addresses."},
		{StreamURL, OwnerFunctions, "the stack's `StreamUrl`", "Where the world finds streams: a session's `streamUrl` begins with it; `-c streamUrl=URL`. The function that streams has no need of it."},
		{Secrets, OwnerFunctions, "`perdure/` and the stack's name and `/`", "Prefix of the Secrets Manager entries that a tool's or provider's `secret` may name."},
		{RolloverSteps, OwnerFunctions, "`300`", "Steps after which a session goes on in a new execution; `-c rolloverSteps=N`."},
		{SliceTurns, OwnerFunctions, "as many as fit", "Model turns in one step of the state machine at most; `1` shows every turn as a state of its own; `-c sliceTurns=N`."},
		{PurgeAgain, OwnerFunctions, "`1200`", "Seconds after which a deletion looks once more for objects that came late; `-c purgeAgainSeconds=N`."},
		{AllowPrivate, OwnerFunctions, "`0`", "Whether tools and model providers may be at private addresses; at loopback, link-local and metadata addresses never, but at loopback where all of AWS is (an emulator); `-c allowPrivate=1`."},
	}
}

func testVariables() []Variable {
	return []Variable{
		{CrashKills, OwnerTests, "`3`", "How often the crash test kills the server."},
		{CrashSeed, OwnerTests, "random, and printed", "Seed of the crash test."},
		{AWSTarget, OwnerTests, "`emulator`", "What tests of the AWS side start where no endpoint is given: `emulator`, or `localstack` for LocalStack itself, without Docker."},
		{AWSEndpoint, OwnerTests, "none: one is started", "Endpoint that the tests of the AWS side use: the URL of an emulator that runs already, or `aws` for AWS itself."},
		{StackOutputs, OwnerTests, "none: the stack is deployed", "File with the outputs of a stack that is there already, as `cdk deploy --outputs-file` writes it."},
	}
}

// Variables that tests read.
const (
	CrashKills   = "PERDURE_TEST_KILLS"
	CrashSeed    = "PERDURE_TEST_SEED"
	AWSTarget    = "PERDURE_AWS_TARGET"
	AWSEndpoint  = "PERDURE_AWS_ENDPOINT"
	StackOutputs = "PERDURE_STACK_OUTPUTS"
)

// Unknown returns the names in an environment (as of os.Environ) that have our
// prefix and are none of ours: most likely misspelt.
func Unknown(environ []string) []string {
	var unknown []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		known := slices.ContainsFunc(Variables(), func(v Variable) bool { return v.Name == name })
		if strings.HasPrefix(name, prefix) && !known {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}

// Lookup finds a variable; os.LookupEnv is one.
type Lookup func(name string) (value string, found bool)

// get returns a variable, or the default where it is not set or empty: an
// empty value is how shells and unit files unset one.
func (l Lookup) get(name, otherwise string) string {
	if v, _ := l(name); v != "" {
		return v
	}
	return otherwise
}

// flag reads a yes or no; set is false where the variable is not there.
func (l Lookup) flag(name string) (value, set bool, err error) {
	text := l.get(name, "")
	if text == "" {
		return false, false, nil
	}
	value, err = strconv.ParseBool(text)
	if err != nil {
		return false, false, fmt.Errorf("%s is %q: write 1 or 0", name, text)
	}
	return value, true, nil
}

// Server is what the local server takes from the environment.
type Server struct {
	Addr          string
	Data          string
	Open          bool
	AllowPrivate  bool
	LogJSON       bool
	StreamSeconds int64 // 0: no limit
	OpenAIKey     string
	OpenAIBaseURL string
	OpenAIModel   string
}

// ParseServer reads the server's settings. home is the user's home folder,
// empty if there is none. An error names the variable and says what to write.
func ParseServer(lookup Lookup, home string) (Server, error) {
	s := Server{
		Addr:          lookup.get(Addr, DefaultAddr),
		OpenAIKey:     lookup.get(OpenAIKey, ""),
		OpenAIBaseURL: lookup.get(OpenAIBaseURL, ""),
		OpenAIModel:   lookup.get(OpenAIModel, DefaultModel),
	}
	return s, errors.Join(s.parseData(lookup, home), s.parseFlags(lookup), checkURL(OpenAIBaseURL, s.OpenAIBaseURL))
}

func (s *Server) parseData(lookup Lookup, home string) (err error) {
	s.Data, err = DataFolder(lookup, home)
	return err
}

func (s *Server) parseFlags(lookup Lookup) error {
	if _, _, err := net.SplitHostPort(s.Addr); err != nil {
		return fmt.Errorf("%s is %q: write host:port, as in %s", Addr, s.Addr, DefaultAddr)
	}
	loopback := IsLoopback(s.Addr)
	open, _, errOpen := lookup.flag(Open)
	private, set, errPrivate := lookup.flag(AllowPrivate)
	s.Open = open
	if s.AllowPrivate = private; !set {
		s.AllowPrivate = loopback
	}
	var errLog error
	switch form := lookup.get(Log, "text"); form {
	case "text":
	case "json":
		s.LogJSON = true
	default:
		errLog = fmt.Errorf("%s is %q: write text or json", Log, form)
	}
	errs := []error{errOpen, errPrivate, errLog, s.CheckOpen()}
	s.StreamSeconds = whole[int64](lookup, StreamSeconds, &errs)
	return errors.Join(errs...)
}

// CheckOpen refuses to serve without keys where others could come in.
func (s *Server) CheckOpen() error {
	if s.Open && !IsLoopback(s.Addr) {
		return fmt.Errorf("%s=1 lets everyone in, and %s is no loopback address: unset one of them", Open, s.Addr)
	}
	return nil
}

// IsLoopback says whether an address to listen on is reached from this machine
// only. A name other than localhost may be anything, so it is not.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// DataFolder is the server's folder.
func DataFolder(lookup Lookup, home string) (string, error) {
	if folder := lookup.get(Data, ""); folder != "" {
		if rest, ok := strings.CutPrefix(folder, "~/"); ok && home != "" {
			folder = filepath.Join(home, rest)
		}
		return folder, nil
	}
	if home == "" {
		return "", fmt.Errorf("this user has no home folder: set %s", Data)
	}
	return filepath.Join(home, defaultDataName), nil
}

// Client is what the commands take from the environment.
type Client struct {
	URL string
	Key string // empty: that of the data folder
}

// ParseClient reads the settings of the commands.
func ParseClient(lookup Lookup) (Client, error) {
	c := Client{URL: lookup.get(URL, ""), Key: lookup.get(Key, "")}
	if c.URL == "" {
		c.URL = "http://" + Reachable(lookup.get(Addr, DefaultAddr))
	}
	return c, checkURL(URL, c.URL)
}

// Reachable turns an address to listen on into one to connect to: whoever
// listens everywhere is found at home.
func Reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func checkURL(name, text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		// Not the value: it may carry a credential.
		return fmt.Errorf("%s is no address: write http://host:port or https://host, without a user", name)
	}
	return nil
}
