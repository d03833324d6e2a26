package host

// Live is how many sessions an engine has in hand.
func (e *Engine) Live() int64 { return e.live.Load() }
