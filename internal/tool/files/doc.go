// Package files is the family of tools that read and write files in a
// session's workspaces: files.list, read, write, edit, grep and glob. It
// declares Workspaces, the port that stores them, and the rule for paths.
//
// It runs no program, follows no link and knows no disk: an adapter does. It
// decides no approval. It may import the standard library, core, the host's
// ports and internal/tool.
package files
