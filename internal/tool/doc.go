// Package tool offers tools to the model, screens the calls that come back and
// runs them: the registry behind the host's port Tools, with the rules that no
// single tool should have to think of (what is granted, who is asked first,
// which bytes are arguments at all, what a schema says of them).
//
// It does no tool's work: that is in the families, one folder each, which hand
// it their Specs. It stores nothing, decides no approval and cuts no output for
// the model; the host does. It may import the standard library, core, the
// host's ports and google/jsonschema-go; families import it, never the reverse.
package tool
