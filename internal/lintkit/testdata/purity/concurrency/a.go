// Package concurrency waits and starts: each marked line is one finding.
package concurrency

type waiter struct {
	done chan struct{} // want channel
}

func (w waiter) wait() {
	go w.stop() // want goroutine
	<-w.done    // want channel
	select {}   // want channel
}

func (w waiter) stop() {
	w.done <- struct{}{} // want channel
	for range w.done {   // want channel
	}
}
