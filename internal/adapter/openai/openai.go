package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

const (
	// DefaultBaseURL is OpenAI's own.
	DefaultBaseURL = "https://api.openai.com/v1"
	// DefaultIdleTimeout is the longest silence within an answer.
	DefaultIdleTimeout = 90 * time.Second
	// ItemKind tags the provider items that this package makes.
	ItemKind = "openai.chat"

	dialTimeout   = 15 * time.Second
	headerTimeout = 10 * time.Minute // a model on a small machine reads a long prompt before it says a word
)

// Config sets a Model up. The zero value calls OpenAI without a key, which it
// refuses.
type Config struct {
	// Name is the provider's name; messages and families carry it.
	Name string
	// BaseURL ends before /chat/completions. Empty is OpenAI's own, or, with
	// Compatible, none: each request then brings its own.
	BaseURL string
	// APIKey is sent to BaseURL and nowhere else. Without one no header that
	// could carry a credential is sent at all.
	APIKey string
	// KeyName is how the operator knows the key, for messages: the name of a
	// variable, never a value.
	KeyName string
	// Compatible says that this is some other server that speaks the protocol.
	// Only then may a request bring a base URL of its own, which never gets
	// the key, and nothing is sent that only OpenAI is known to take.
	Compatible bool
	// HTTPClient does the requests; the caller decides what it may reach. Nil
	// is a plain one. A dialer that refuses an address may return a
	// *host.Fault, which is then handed on. Redirects are never followed.
	HTTPClient *http.Client
	// Family tags provider items; empty is one family for each model of each
	// address.
	Family string
	// Lookup says what is known of a model by its name. Nil knows nothing.
	Lookup func(model string) host.ModelInfo
	// IdleTimeout is the longest silence within an answer; 0 is
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
}

// Model is a host.ModelPort for one provider. It is safe for concurrent use.
type Model struct {
	cfg     Config
	chat    sdk.ChatCompletionService
	refused refusals
}

var _ host.ModelPort = (*Model)(nil)

// New checks the config and makes a Model.
func New(cfg Config) (*Model, error) {
	cfg.Name = cmp.Or(cfg.Name, "openai")
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout)

	if cfg.BaseURL == "" && !cfg.Compatible {
		cfg.BaseURL = DefaultBaseURL
	}

	if cfg.BaseURL != "" {
		base, err := parseBase(cfg.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", cfg.Name, err)
		}

		cfg.BaseURL = base
	}

	// The service is made alone: the client's usual constructor would read
	// keys, organizations and addresses from the environment.
	chat := sdk.NewChatCompletionService(
		option.WithHTTPClient(httpClient(cfg.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithHeader("Accept", "text/event-stream"),
	)

	return &Model{cfg: cfg, chat: chat}, nil
}

// httpClient copies the caller's client without redirects: an answer that
// moves elsewhere could take the prompt, and a key, where nobody decided to
// send them.
func httpClient(given *http.Client) *http.Client {
	client := http.Client{}
	if given != nil {
		client = *given
	} else {
		client.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext,
			TLSHandshakeTimeout:   dialTimeout,
			ResponseHeaderTimeout: headerTimeout,
			ForceAttemptHTTP2:     true,
			MaxIdleConnsPerHost:   16,
			IdleConnTimeout:       DefaultIdleTimeout,
		}
	}

	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	return &client
}

var errBaseURL = errors.New("bad base URL")

// parseBase checks an address and cuts off what people paste with it.
func parseBase(s string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(s))

	switch {
	case err != nil:
		// The parser's error would repeat the text, credentials included.
		return "", fmt.Errorf("%w: it cannot be parsed", errBaseURL)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fmt.Errorf("%w: it must begin with http:// or https:// and name a host", errBaseURL)
	case u.User != nil:
		return "", fmt.Errorf("%w: it carries a credential", errBaseURL)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", fmt.Errorf("%w: it has a query or a fragment", errBaseURL)
	}

	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions"), "/")
	u.RawPath = ""

	return u.String(), nil
}

// target is where a request goes, and with which credential.
type target struct {
	base string
	key  string
	own  bool // the address is the model's own
}

func (m *Model) target(model session.Model) (target, error) {
	if model.BaseURL == "" {
		if m.cfg.BaseURL == "" {
			return target{}, m.unsent(host.ClassInvalid, "no base URL is set for this provider or model")
		}

		if m.cfg.APIKey == "" && m.cfg.BaseURL == DefaultBaseURL {
			return target{}, m.unsent(host.ClassAuthentication, "no API key is set for this provider"+m.keyHint(target{}))
		}

		return target{base: m.cfg.BaseURL, key: m.cfg.APIKey}, nil
	}

	if !m.cfg.Compatible {
		return target{}, m.unsent(host.ClassInvalid, "a model of this provider cannot have a base URL of its own")
	}

	base, err := parseBase(model.BaseURL)
	if err != nil {
		return target{}, m.unsent(host.ClassInvalid, err.Error())
	}

	return target{base: base, own: true}, nil
}

// family keeps items apart that only the server and model that made them can
// read.
func (m *Model) family(model, base string) string {
	if m.cfg.Family != "" {
		return m.cfg.Family
	}

	if base == "" {
		return m.cfg.Name + "/" + model
	}

	return m.cfg.Name + "@" + base + "/" + model
}

// Info implements host.ModelPort.
func (m *Model) Info(model session.Model) host.ModelInfo {
	var info host.ModelInfo

	base := ""
	if model.BaseURL != "" {
		// Whoever runs that address named its models; a catalog does not know them.
		base, _ = parseBase(model.BaseURL)
	} else if m.cfg.Lookup != nil {
		info = m.cfg.Lookup(model.Model)
	}

	info.Family = cmp.Or(info.Family, m.family(model.Model, base))

	return info
}

// Generate implements host.ModelPort. With an error the result still carries
// the text and the usage that had come before it.
func (m *Model) Generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	if err := ctx.Err(); err != nil {
		return host.ModelResult{}, m.stopped(err, false)
	}

	to, err := m.target(req.Model)
	if err != nil {
		return host.ModelResult{}, err
	}

	options := renderOptions{
		family:     m.Info(req.Model).Family,
		countUsage: !m.refused.has(to.base),
		cacheKey:   !m.cfg.Compatible,
	}

	res, err := m.once(ctx, to, req, options, sink)
	if options.countUsage && refusesUsage(err) {
		// The server knows the protocol without this option. It has not begun
		// to answer, so this is still the same attempt.
		m.refused.add(to.base)

		options.countUsage = false
		res, err = m.once(ctx, to, req, options, sink)
	}

	return res, err
}

func (m *Model) once(
	ctx context.Context, to target, req host.ModelRequest, options renderOptions, sink func(host.Delta),
) (host.ModelResult, error) {
	body, err := render(req, options)
	if err != nil {
		return host.ModelResult{}, m.unsent(host.ClassInvalid, err.Error())
	}

	answer := newAnswer(sink, options.family)
	err = m.send(ctx, to, body, answer)

	if !answer.reported && (err == nil || answer.begun()) {
		answer.usage = estimate(req, answer)
	}

	if err == nil {
		return answer.result(), nil
	}

	if fault, ok := errors.AsType[*host.Fault](err); ok && fault.Usage.IsZero() {
		fault.Usage = answer.usage
	}

	return answer.partial(), err
}
