package host

import (
	"context"
	"sync"
	"time"
)

type host struct {
	mu   sync.Mutex   // want forbidigo
	rw   sync.RWMutex // want forbidigo
	once sync.Once
}

func (h *host) wait(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // want forbidigo
	defer cancel()

	_, stop := context.WithDeadline(ctx, time.Now()) // want forbidigo forbidigo
	defer stop()

	<-time.After(time.Second) // want forbidigo
	time.Sleep(1)             // want forbidigo

	_ = context.Background() // want forbidigo

	return time.Minute
}
