package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Deps are what the API is served from. Engine, Stash, Auth and Secret are
// required.
type Deps struct {
	Engine *host.Engine
	// Stash keeps the first answers to idempotency keys.
	Stash host.Stash
	// Auth knows who asks.
	Auth Authenticator
	// Keys open promise tokens; the engine's own.
	Keys host.Keyring
	// Secret signs cursors: 32 bytes or more, the same over restarts.
	Secret []byte
	// Streams says how live streams are served.
	Streams Streams
	// Tools keeps the definitions of outside tools; nil serves no such routes.
	Tools ToolStore
	// DefaultConfig is what a session has that is made without a config, and
	// whose model it has where the config names none; nil makes both required.
	DefaultConfig func(ctx context.Context, tenant ident.TenantID) Config
	// Guard says under which names the server may be addressed.
	Guard Guard
	// Ready says whether requests would be served now; nil is always.
	Ready func(ctx context.Context) error
	// KeyHint says where the key lies, to people who have none.
	KeyHint string
	// Version is the build's.
	Version string
	// Log is told what clients are not; nil discards.
	Log *slog.Logger
}

type server struct {
	Deps
	api     huma.API
	mux     *http.ServeMux
	routes  map[string]*route // by pattern of the mux
	openapi []byte
}

// New builds the handler: every route, with everything that stands before it.
func New(d Deps) http.Handler {
	setHuma()
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	s := &server{Deps: d, mux: http.NewServeMux(), routes: map[string]*route{}}
	s.api = humago.New(s.mux, humaConfig(d.Version))
	s.addSessions()
	s.addContext()
	s.addRuns()
	s.addDecisions()
	s.addEvents()
	s.addStreams()
	s.addPromises()
	s.addTools()
	s.addMeta()
	s.describe()
	return s
}

// setHuma makes huma speak our problems. Its hooks are variables of its
// package, the same for every API of a process.
var setHuma = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewErrorWithContext = fromHuma
	// Asked at registration alone, for the schema of a problem.
	huma.NewError = func(status int, msg string, _ ...error) huma.StatusError {
		return &Problem{Status: status, Detail: msg}
	}
})

func humaConfig(version string) huma.Config {
	c := huma.DefaultConfig("Perdure", version)
	c.Info.Description = "Durable AI agent sessions. Times are RFC 3339 with milliseconds, UTC; problems are RFC 9457."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", "", nil
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			return enc.Encode(v)
		},
		Unmarshal: json.Unmarshal,
	}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Components.Parameters = headers()
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"key": {Type: "http", Scheme: "bearer", Description: "pk_<id>_<secret>"},
	}
	return c
}

// route is what stands before a handler: who may come in, and with what.
type route struct {
	op huma.Operation
	// scopes: one of them is asked for. None on a public route.
	scopes []string
	public bool
	// submission says that the idempotency key is the command's submissionId.
	submission bool
	// ticket says that a ticket will do in the place of a key.
	ticket bool
	// also are statuses of success beside the operation's own.
	also []int
	// prefixes of query parameters whose names are the client's.
	prefixes []string

	query []string     // names of query parameters
	body  *huma.Schema // nil: it takes none
	must  bool         // it takes one for sure
}

// on begins a route.
func on(method, path, id, summary string, status int, scopes ...string) route {
	return route{
		op: huma.Operation{
			Method: method, Path: path, OperationID: id, Summary: summary, DefaultStatus: status,
			// The body has been read and bounded when huma sees it. A deadline
			// of its own would cut the long polls.
			MaxBodyBytes: -1, BodyReadTimeout: -1,
			Security: []map[string][]string{{"key": {}}},
		},
		scopes: scopes, public: len(scopes) == 0,
	}
}

// add registers a route.
func add[I, O any](s *server, r route, handle func(context.Context, *I) (*O, error)) {
	if r.public {
		r.op.Security = []map[string][]string{}
	}
	r.op.Metadata = map[string]any{metadataRegistry: s.api.OpenAPI().Components.Schemas}
	huma.Register(s.api, r.op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problemOf(ctx, err)
		}
		return out, nil
	})
	op := s.operation(r.op.Method, r.op.Path)
	for _, p := range op.Parameters {
		if p.In == "query" {
			r.query = append(r.query, p.Name)
		}
	}
	if op.RequestBody != nil {
		r.body, r.must = op.RequestBody.Content["application/json"].Schema, op.RequestBody.Required
	}
	for _, status := range r.also {
		also := *op.Responses[strconv.Itoa(r.op.DefaultStatus)]
		also.Description = http.StatusText(status)
		op.Responses[strconv.Itoa(status)] = &also
	}
	if r.op.Method == http.MethodPost {
		op.Parameters = append(op.Parameters, headerRef(headerKey))
	}
	if !r.public {
		op.Parameters = append(op.Parameters, headerRef(headerActor), headerRef(headerRoles))
	}
	s.routes[r.op.Method+" "+r.op.Path] = &r
}

// Headers that many routes take, by their names in the document.
const (
	headerKey   = "IdempotencyKey"
	headerActor = "Actor"
	headerRoles = "Roles"
)

func headerRef(name string) *huma.Param { return &huma.Param{Ref: "#/components/parameters/" + name} }

// headers describes them. They are read before huma sees a request.
func headers() map[string]*huma.Param {
	one, most := 1, 128
	visible := func() *huma.Schema {
		return &huma.Schema{Type: huma.TypeString, MinLength: &one, MaxLength: &most, Pattern: "^[!-~]+$"}
	}
	return map[string]*huma.Param{
		headerKey:   {Name: "Idempotency-Key", In: "header", Description: "A name for this request: sent again, it has the first answer.", Schema: visible()},
		headerActor: {Name: "Perdure-Actor", In: "header", Description: "Whom the key acts for. Takes the scope act-as.", Schema: visible()},
		headerRoles: {Name: "Perdure-Roles", In: "header", Description: "Roles of that actor, with commas between them.", Schema: &huma.Schema{Type: huma.TypeString}},
	}
}

// metadataRegistry is where an operation has the schemas that it refers to.
const metadataRegistry = "registry"

// operation finds what huma made of a route.
func (s *server) operation(method, path string) *huma.Operation {
	item := s.api.OpenAPI().Paths[path]
	switch method {
	case http.MethodGet:
		return item.Get
	case http.MethodPut:
		return item.Put
	case http.MethodPost:
		return item.Post
	case http.MethodPatch:
		return item.Patch
	default:
		return item.Delete
	}
}

// takes says whether a query parameter belongs to the route.
func (rt *route) takes(name string) bool {
	return slices.Contains(rt.query, name) || slices.ContainsFunc(rt.prefixes, func(p string) bool {
		return len(name) > len(p) && name[:len(p)] == p
	})
}

// request is what is known of a request when its handler begins.
type request struct {
	*http.Request
	who Principal
	via string
	// query is the checked query: every parameter once.
	query map[string]string
	// submission is the Idempotency-Key, where it is a command's submissionId.
	submission string
	// nonce is the same for every try under one Idempotency-Key.
	nonce string
}

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// reply is an answer with its status.
type reply[T any] struct {
	Status int
	Body   T
}

func answer[T any](status int, body T) *reply[T] { return &reply[T]{status, body} }
