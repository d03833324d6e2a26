package local

// Tenant is the one tenant of a local server, and Actor whoever has its key.
const (
	Tenant = "local"
	Actor  = "local"
)
