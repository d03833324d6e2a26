package rejected

import "time"

// A test may look at the clock.
func now() time.Time { return time.Now() }
