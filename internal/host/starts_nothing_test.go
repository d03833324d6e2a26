package host_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/lintkit"
)

// TestHostStartsNothing holds this package to its port Sched. A simulator that
// owns every task, every wait and every moment can only do so if none is made
// behind its back.
func TestHostStartsNothing(t *testing.T) {
	t.Parallel()

	nothing := lintkit.Nothing{
		Root: "internal/host",
		Skip: []string{"internal/host/porttest/..."},
		Imports: map[string]string{
			"crypto/rand":  "random bytes come from Sched.Entropy",
			"math/rand":    "random bytes come from Sched.Entropy",
			"math/rand/v2": "random bytes come from Sched.Entropy",
		},
		Names: map[string][]string{
			"context": {"AfterFunc", "WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"},
			"sync":    {"Cond", "Locker", "Mutex", "NewCond", "Once", "OnceFunc", "OnceValue", "OnceValues", "RWMutex", "WaitGroup"},
			"time": {
				"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Ticker", "Timer", "Until",
			},
		},
	}

	found, err := nothing.Check(os.DirFS("../.."))
	require.NoError(t, err)

	for _, f := range found {
		t.Error(f)
	}
}
