package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure/core/ident"
)

// Tool is an outside tool of the tenant, as an admin sets it up. Its secret is
// a name; the value is the server's environment's.
type Tool struct {
	Name string `json:"name"`
	ToolDefinition
}

// ToolDefinition is what an outside tool is.
type ToolDefinition struct {
	Target         string `json:"target" enum:"http,lambda,queue" doc:"What the tool is reached by. A server says which it does not serve."`
	URL            string `json:"url,omitempty" maxLength:"2048" doc:"Of http: where calls are sent."`
	Function       string `json:"function,omitempty" maxLength:"170" doc:"Of lambda: the function's name or ARN, with a version or alias if wanted."`
	Queue          string `json:"queue,omitempty" maxLength:"2048" doc:"Of queue: the URL of the SQS queue; left out, the server's own work queue."`
	Secret         string `json:"secret,omitempty" maxLength:"128" doc:"Of http: name of what signs the calls, never the value."`
	Description    string `json:"description" minLength:"1" doc:"For the model: what it does, what the arguments mean."`
	Parameters     Object `json:"parameters" doc:"JSON Schema of the arguments."`
	ResultSchema   Object `json:"resultSchema,omitempty" doc:"JSON Schema of the result."`
	Kind           string `json:"kind" enum:"read,action"`
	RetrySafe      bool   `json:"retrySafe" required:"false" doc:"Running twice does what running once does."`
	Parallel       bool   `json:"parallel" required:"false" doc:"May overlap other calls of its turn."`
	Completion     string `json:"completion" enum:"joined,promise"`
	TimeoutSeconds int64  `json:"timeoutSeconds,omitempty" minimum:"0" maximum:"31536000" doc:"The whole call, its later answer included; left out, a day, or 90 seconds for a joined function."`
	RequiresRole   string `json:"requiresRole,omitempty" maxLength:"128"`
	Lookup         bool   `json:"lookup,omitempty" doc:"Of http: a GET at the URL with ?operation=<id> tells what became of a call."`
}

// ToolStore keeps the definitions of outside tools. Implementations are safe
// for concurrent use; what they refuse is a *host.Rejection.
type ToolStore interface {
	// Tools lists a tenant's tools by name, after one, at most limit.
	Tools(ctx context.Context, tenant ident.TenantID, after string, limit int) ([]Tool, error)
	// Tool reads one. host.ErrNotFound if there is none.
	Tool(ctx context.Context, tenant ident.TenantID, name string) (Tool, error)
	// PutTool makes or replaces one, and says whether it is new.
	PutTool(ctx context.Context, tenant ident.TenantID, t Tool) (created bool, err error)
	// DeleteTool removes one. host.ErrNotFound if there is none.
	DeleteTool(ctx context.Context, tenant ident.TenantID, name string) error
}

func (s *server) addTools() {
	if s.Tools == nil {
		return
	}
	add(s, on(http.MethodGet, "/v1/tools", "listTools", "List outside tools", http.StatusOK, ScopeAdmin), s.listTools)
	add(s, on(http.MethodGet, "/v1/tools/{name}", "getTool", "Read an outside tool", http.StatusOK, ScopeAdmin), s.getTool)
	put := on(http.MethodPut, "/v1/tools/{name}", "putTool", "Make or replace an outside tool", http.StatusOK, ScopeAdmin)
	put.also = []int{http.StatusCreated}
	add(s, put, s.putTool)
	add(s, on(http.MethodDelete, "/v1/tools/{name}", "deleteTool", "Remove an outside tool", http.StatusNoContent, ScopeAdmin), s.deleteTool)
}

// ToolPath names a tool in a path.
type ToolPath struct {
	Name string `path:"name" pattern:"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$" patternDescription:"letters, digits and, after the first, _ . : -; at most 128"`
}

func (p ToolPath) check(ctx context.Context) (ident.TenantID, error) {
	if _, err := ident.ParseName("tool name", p.Name); err != nil {
		return "", invalidAt("path.name", "letters, digits and, after the first, _ . : -; at most 128")
	}
	return requestOf(ctx).who.Tenant, nil
}

// toolsAt is where a list of tools goes on.
type toolsAt struct {
	After string `json:"a"`
}

func (s *server) listTools(ctx context.Context, in *Listing) (*reply[Page[Tool]], error) {
	r := requestOf(ctx)
	var at toolsAt
	if err := s.open(r, &at); err != nil {
		return nil, err
	}
	p := newPager[Tool](s, r)
	found, err := s.Tools.Tools(ctx, r.who.Tenant, at.After, p.most+1)
	if err != nil {
		return nil, err
	}
	for _, t := range found {
		if p.full() {
			return p.after(at)
		}
		fits, err := p.add(t)
		if err != nil {
			return nil, err
		}
		if !fits {
			return p.after(at)
		}
		at.After = t.Name
	}
	return p.end(), nil
}

func (s *server) getTool(ctx context.Context, in *ToolPath) (*reply[Tool], error) {
	tenant, err := in.check(ctx)
	if err != nil {
		return nil, err
	}
	t, err := s.Tools.Tool(ctx, tenant, in.Name)
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, t), nil
}

type putToolInput struct {
	ToolPath
	Body ToolDefinition
}

func (s *server) putTool(ctx context.Context, in *putToolInput) (*reply[Tool], error) {
	tenant, err := in.check(ctx)
	if err != nil {
		return nil, err
	}
	t := Tool{Name: in.Name, ToolDefinition: in.Body}
	created, err := s.Tools.PutTool(ctx, tenant, t)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return answer(status, t), nil
}

func (s *server) deleteTool(ctx context.Context, in *ToolPath) (*struct{}, error) {
	tenant, err := in.check(ctx)
	if err != nil {
		return nil, err
	}
	return nil, s.Tools.DeleteTool(ctx, tenant, in.Name)
}
