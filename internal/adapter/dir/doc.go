// Package dir keeps workspaces on disk: each is a folder, each file a file in
// it, written whole by way of a temporary one and synced with its folder.
//
// It knows no sessions beyond their ids and no rules of access. One process
// owns the folder. Links are never followed out of a workspace and never
// listed. Where the file system takes upper and lower case, or two spellings
// of an accent, for the same name (macOS by default), so do the paths in a
// workspace; tenants, sessions and workspaces are kept apart there too. It may
// import the standard library, core and the host's ports.
package dir
