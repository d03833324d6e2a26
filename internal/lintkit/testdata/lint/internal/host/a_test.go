package host_test

import (
	"context"
	"sync"
	"time"
)

var mu sync.Mutex

func now() time.Time {
	_ = context.Background()

	time.Sleep(1) // want forbidigo

	return time.Now()
}
