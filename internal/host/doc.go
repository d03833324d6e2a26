// Package host is the imperative shell round the core: it loads and folds a
// session, steps its machine, commits what the step says, and performs the
// effects that follow from what is durable. It declares every port.
//
// It starts nothing by itself: concurrency, waiting and time come through the
// port Sched, so a simulator can run it one task at a time. It knows no
// technology. It may import the standard library and core; adapters import it.
package host
