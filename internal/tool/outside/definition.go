package outside

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/tool"
)

// Targets: what a tool is reached by.
const (
	HTTP   = "http"
	Lambda = "lambda"
	Queue  = "queue"
)

// Completions: whether the model waits for the result of a call, or gets a
// promise of it.
const (
	Joined  = "joined"
	Promise = "promise"
)

// Bounds of a definition.
const (
	urlMax         = 2048 // bytes
	functionMax    = 170  // bytes; Lambda's own
	descriptionMax = 8 << 10
	// LambdaSeconds is how long a joined call of a function may take: what runs
	// it is a function itself, and has to write the answer down.
	LambdaSeconds = 840
)

// Definition is an outside tool as an admin sets it up, and as it is stored.
type Definition struct {
	Name string `json:"name"`
	// Target says what the tool is reached by. Empty is HTTP: so was stored
	// what was set up when there was nothing else.
	Target   string `json:"target,omitempty"`
	URL      string `json:"url,omitempty"`      // of HTTP
	Function string `json:"function,omitempty"` // of Lambda: name or ARN
	Queue    string `json:"queue,omitempty"`    // of Queue: its URL; empty is the server's own
	Secret   string `json:"secret,omitempty"`   // of HTTP: name of what signs the calls; never the value

	Description  string `json:"description"`
	Parameters   string `json:"parameters"`             // JSON Schema text
	ResultSchema string `json:"resultSchema,omitempty"` // JSON Schema text; empty: anything
	Kind         string `json:"kind"`
	RetrySafe    bool   `json:"retrySafe,omitempty"`
	Parallel     bool   `json:"parallel,omitempty"`
	Completion   string `json:"completion"`
	// TimeoutSeconds bounds the whole call, its later answer included; 0 is
	// the default of its kind.
	TimeoutSeconds int64  `json:"timeoutSeconds,omitempty"`
	RequiresRole   string `json:"requiresRole,omitempty"`
	// Lookup says that a GET at the URL with ?operation=<id> tells what became
	// of a call.
	Lookup bool `json:"lookup,omitempty"`
}

// By is what the tool is reached by.
func (d *Definition) By() string {
	if d.Target == "" {
		return HTTP
	}
	return d.Target
}

// Validate says why a definition cannot be used.
func (d *Definition) Validate() error {
	if _, err := ident.ParseName("tool name", d.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if err := d.checkTarget(); err != nil {
		return err
	}
	switch {
	case d.Kind != tool.KindRead && d.Kind != tool.KindAction:
		return errors.New("kind is neither read nor action")
	case d.Completion != Joined && d.Completion != Promise:
		return errors.New("completion is neither joined nor promise")
	case d.TimeoutSeconds < 0 || d.TimeoutSeconds > session.PromiseMax/ident.Second:
		return fmt.Errorf("timeoutSeconds is not between 0 and %d", session.PromiseMax/ident.Second)
	case d.Description == "" || len(d.Description) > descriptionMax || !utf8.ValidString(d.Description):
		return fmt.Errorf("description is not UTF-8 of 1 to %d bytes", descriptionMax)
	}
	if _, err := tool.CompileSchema(d.Parameters, true); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	if d.ResultSchema != "" {
		if _, err := tool.CompileSchema(d.ResultSchema, false); err != nil {
			return fmt.Errorf("resultSchema: %w", err)
		}
	}
	return nil
}

// checkTarget checks what belongs to one target, and that nothing of another is
// there: an admin would take it for being in force.
func (d *Definition) checkTarget() error {
	of := map[string]string{}
	if d.URL != "" {
		of["url"] = HTTP
	}
	if d.Secret != "" {
		of["secret"] = HTTP
	}
	if d.Lookup {
		of["lookup"] = HTTP
	}
	if d.Function != "" {
		of["function"] = Lambda
	}
	if d.Queue != "" {
		of["queue"] = Queue
	}
	for _, name := range []string{"url", "secret", "lookup", "function", "queue"} {
		if by, there := of[name]; there && by != d.By() {
			return fmt.Errorf("%s does not belong to target %s, but to %s", name, d.By(), by)
		}
	}
	switch d.By() {
	case HTTP:
		return checkURL(d.URL)
	case Lambda:
		if d.Completion == Joined && d.TimeoutSeconds > LambdaSeconds {
			return fmt.Errorf("timeoutSeconds of a joined function is at most %d: what takes longer is set up with completion promise", LambdaSeconds)
		}
		return checkFunction(d.Function)
	case Queue:
		if d.Completion != Promise {
			return errors.New("completion of target queue is promise: a worker answers later")
		}
		return checkQueue(d.Queue)
	}
	return fmt.Errorf("target is none of %s", strings.Join([]string{HTTP, Lambda, Queue}, ", "))
}

func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("url cannot be read") // the error repeats it
	case len(text) > urlMax:
		return fmt.Errorf("url has %d bytes, allowed are %d", len(text), urlMax)
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url is neither http nor https")
	case u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("url has no host")
	case u.User != nil:
		return errors.New("url carries a credential: use secret")
	case u.Fragment != "":
		return errors.New("url has a fragment")
	}
	return nil
}

// Grammars of AWS: of what Invoke takes for a function's name, and of a queue's
// path.
const (
	functionGrammar = `^(arn:aws[a-zA-Z-]*:lambda:[a-z]{2}(-[a-z]+)+-[0-9]:[0-9]{12}:function:|[0-9]{12}:function:)?` +
		`[a-zA-Z0-9-_]{1,64}(:(\$LATEST|[a-zA-Z0-9-_]{1,128}))?$`
	queueGrammar = `^/[0-9]{12}/[a-zA-Z0-9-_]{1,80}(\.fifo)?$`
)

func checkFunction(text string) error {
	if len(text) > functionMax || !matches(functionGrammar, text) {
		return errors.New("function is neither a function's name nor its ARN, with or without a version or alias")
	}
	return nil
}

func checkQueue(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > urlMax || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || !matches(queueGrammar, u.Path) {
		return errors.New("queue is not the URL of an SQS queue")
	}
	if strings.HasSuffix(u.Path, ".fifo") {
		return errors.New("queue is a FIFO queue: name a standard one, calls have no order among them")
	}
	return nil
}

// matches is asked when a tool is set up or offered: the grammars are short, and
// a compiled one would be a variable of the package.
func matches(grammar, text string) bool {
	ok, err := regexp.MatchString(grammar, text)
	return err == nil && ok
}

// Spec is what is the same for all targets; who reaches the tool adds Target and
// Run. result is nil if any result will do. A definition that cannot be used is
// left out of every offer by the registry, with the reason.
func (d *Definition) Spec() (spec tool.Spec, result *tool.Schema) {
	class := session.ClassJoined
	if d.Completion == Promise {
		class = session.ClassPromise
	}
	spec = tool.Spec{
		Name: d.Name, Kind: d.Kind, Class: class, Description: d.Description, Parameters: d.Parameters,
		RetrySafe: d.RetrySafe, Parallel: d.Parallel, DeadlineMs: d.TimeoutSeconds * ident.Second,
		RequiresRole: d.RequiresRole, Invalid: d.Validate(),
	}
	if spec.Invalid == nil && d.ResultSchema != "" {
		result, spec.Invalid = tool.CompileSchema(d.ResultSchema, false)
	}
	return spec, result
}

// Unserved is the tool of a definition whose target a server does not reach;
// serves are those that it does.
func (d *Definition) Unserved(serves []string) tool.Spec {
	spec, _ := d.Spec()
	spec.Invalid = errors.Join(spec.Invalid, NotServed(d.By(), serves))
	return spec
}

// NotServed says that a server does not reach a target.
func NotServed(target string, serves []string) error {
	serves = slices.Sorted(slices.Values(serves))
	return fmt.Errorf("target %s is not served by this server, which serves %s", target, strings.Join(serves, ", "))
}
