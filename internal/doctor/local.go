package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
	"github.com/perdure/perdure/internal/netguard"
)

// Machine is this machine, as the commands see it.
type Machine struct {
	Lookup  env.Lookup
	Environ []string
	Home    string
	// Server is what the commands talk to, and Key what they send. Trouble is why
	// that is not known.
	Server  string
	Key     string
	Trouble error
}

// openAIBase is where the provider openai is when nothing says otherwise.
const openAIBase = "https://api.openai.com/v1"

// Local looks at this machine.
func Local(ctx context.Context, m Machine) Report {
	var r Report
	settings, err := env.ParseServer(m.Lookup, m.Home)
	if err != nil {
		r.add(Check{Name: "settings", Status: Wrong, Text: line(err), Do: "set the variable right; docs/VARIABLES.md has them all"})
		return r.done()
	}
	if names := env.Unknown(m.Environ); len(names) > 0 {
		r.add(Check{Name: "settings", Status: Note, Text: "not known, and so without effect: " + strings.Join(names, ", "), Do: "see docs/VARIABLES.md for how they are written"})
	} else {
		r.add(Check{Name: "settings", Status: OK, Text: "every variable is understood"})
	}
	r.add(folder(settings.Data))
	if m.Trouble != nil {
		r.add(Check{Name: "commands", Status: Wrong, Text: line(m.Trouble), Do: "see " + env.URL + ", " + env.Key + " and --url"})
	} else {
		server, answers := m.server(ctx, settings.Addr)
		r.add(server)
		if answers {
			r.add(m.key(ctx))
		}
	}
	r.add(provider(ctx, settings))
	return r.done()
}

// folder looks at the data folder without opening what is in it: a server may
// be at work there.
func folder(path string) Check {
	c := Check{Name: "data folder", Status: Wrong}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Status, c.Text = Note, path+" is not there yet"
		c.Do = "nothing: \"perdure serve\" makes it"
		return c
	case err != nil:
		c.Text, c.Do = line(err), "choose another folder with "+env.Data
		return c
	case !info.IsDir():
		c.Text, c.Do = path+" is no folder", "move the file away, or choose another folder with "+env.Data
		return c
	}
	probe, err := os.CreateTemp(path, ".doctor-*")
	if err != nil {
		c.Text, c.Do = "nothing can be written in "+path+": "+line(err), "give this user the right, make room, or choose another folder with "+env.Data
		return c
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		c.Text = line(err)
		return c
	}
	if _, err := local.ReadKey(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Text, c.Do = line(err), "see that only the server's user reads and writes there"
		return c
	}
	if runtime.GOOS != "windows" {
		if key, err := os.Stat(local.KeyFile(path)); err == nil && key.Mode().Perm()&0o077 != 0 {
			c.Text = local.KeyFile(path) + " can be read by others, and whoever has it may do everything"
			c.Do = "start the server once, which puts it right, or chmod 600 it"
			return c
		}
	}
	c.Status, c.Text = OK, path+", which can be written"
	return c
}

// serverName is what a server calls itself.
const serverName = "Perdure"

// server asks what the commands talk to, and looks at the port where nobody
// answers.
func (m Machine) server(ctx context.Context, addr string) (c Check, answers bool) {
	c = Check{Name: "server", Status: Wrong}
	about, err := client.New(m.Server, "").About(ctx)
	var away *client.UnreachableError
	switch {
	case err == nil && about.Name == serverName:
		c.Status, c.Text = OK, fmt.Sprintf("%s %s answers at %s", about.Name, about.Version, m.Server)
		return c, true
	case !errors.As(err, &away):
		c.Text = "what answers at " + m.Server + " is no server of sessions"
		c.Do = "stop what listens there, choose another address with " + env.Addr + ", or say where the server is with " + env.URL
		return c, false
	case m.Server != "http://"+env.Reachable(addr):
		c.Text, c.Do = line(err), "see that the server runs and can be reached from here; "+env.URL+" and --url say where it is"
		return c, false
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		c.Text, c.Do = "nobody answers at "+addr+", and it cannot be listened on: "+line(err), "choose another address with "+env.Addr
		return c, false
	}
	_ = listener.Close() // it was a try
	c.Status, c.Text, c.Do = Note, "no server runs at "+addr+"; the address is free", "\"perdure serve\" starts one"
	return c, false
}

func (m Machine) key(ctx context.Context) Check {
	c := Check{Name: "key", Status: Wrong}
	me, err := client.New(m.Server, m.Key).Me(ctx)
	switch {
	case client.Code(err) == "unauthenticated" && m.Key == "":
		c.Text, c.Do = "the server wants a key, and there is none", "set "+env.Key+", or "+env.Data+" to the server's folder, where its key lies"
	case client.Code(err) == "unauthenticated":
		c.Text, c.Do = "the server does not know the key", "set "+env.Key+" right; that of a server on this machine lies in its data folder, "+env.Data
	case err != nil:
		c.Text = line(err)
	default:
		c.Status, c.Text = OK, fmt.Sprintf("it is %s's, of the tenant %s", me.Actor, me.Tenant)
	}
	return c
}

// providerWithin is how long a provider may take to say what it has.
const providerWithin = 10 * time.Second

// provider asks the model's provider for its list of models, under the rules
// that the server would have: it costs nothing and takes the key.
func provider(ctx context.Context, s env.Server) Check {
	c := Check{Name: "model", Status: Wrong}
	if s.OpenAIKey == "" && s.OpenAIBaseURL == "" {
		c.Status, c.Text = Note, "the scripted model alone: no provider is set up"
		c.Do = "set " + env.OpenAIKey + ", or " + env.OpenAIBaseURL + " to a server that speaks OpenAI's protocol"
		return c
	}
	base := strings.TrimSuffix(s.OpenAIBaseURL, "/")
	if base == "" {
		base = openAIBase
	}
	ctx, cancel := context.WithTimeout(ctx, providerWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		c.Text, c.Do = "the provider's address is none", "set "+env.OpenAIBaseURL+" right"
		return c
	}
	if s.OpenAIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.OpenAIKey)
	}
	web := &http.Client{
		Transport: netguard.Guard{AllowPrivate: s.AllowPrivate}.Transport(http.ProxyFromEnvironment),
		// The key goes to the provider, and nowhere that it sends us to.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer web.CloseIdleConnections()
	resp, err := web.Do(req)
	if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
		c.Text, c.Do = refused.Error(), env.AllowPrivate+"=1 lets the server go there"
		return c
	}
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the address is said already
		}
		c.Text, c.Do = "no answer from "+base+": "+line(err), "see that it runs and can be reached from here, and that "+env.OpenAIBaseURL+" is right"
		return c
	}
	defer func() { _ = resp.Body.Close() }() // nobody reads it
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		c.Text, c.Do = fmt.Sprintf("%s refuses the key (HTTP %d)", base, status), "set "+env.OpenAIKey+" to a key that is good there"
	case status == http.StatusNotFound || status < http.StatusMultipleChoices:
		// Not all that speak the protocol have a list of models.
		c.Status, c.Text = OK, base+" answers; sessions without a model of their own get "+s.OpenAIModel
	default:
		c.Status, c.Text = Unknown, fmt.Sprintf("%s answers with HTTP %d", base, status)
	}
	return c
}
