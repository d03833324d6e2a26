// Package chat talks to one session in lines: what comes is printed as it
// comes, what is typed is sent, and words that begin with a slash are commands.
//
// It needs no terminal: it reads lines and writes lines, so it works in a pipe.
// It keeps no session alive and ends none: whoever quits finds it as it is. It
// may import internal/client, internal/api and a library for the width of text.
package chat
