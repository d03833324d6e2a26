package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
)

// versionCommand prints the version.
type versionCommand struct{}

// Run does it.
func (versionCommand) Run(a *app) error {
	if a.grammar.JSON {
		return json.NewEncoder(a.out).Encode(map[string]string{"version": version(), "go": runtime.Version()})
	}
	a.printf("perdure %s (%s)\n", version(), runtime.Version())
	return nil
}

// version is that of the module, or the commit that was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
