// Package cloud is what the functions of the stack run: the engine, the API and
// the tools over the adapters that it is handed, one Function for each.
//
// It is the twin of internal/local and shares its parts (internal/wiring). It
// decides nothing about sessions, makes no adapter, knows no type of Lambda or
// of AWS's clients, and reads the environment through the lookup that it is
// given. Nothing that is wrong with its surroundings ends the process or hangs:
// the log gets a line that says what to do, and whoever asked gets an answer. It
// may import everything but mains, internal/local, AWS's clients and Lambda's
// types.
package cloud
