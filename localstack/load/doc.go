// Package load puts many sessions and many commands on the deployed stack at
// once, and looks for what is lost: sessions parked on task tokens, commands over
// several connections. Its benchmarks say how long that takes and how much memory
// the target has by then.
//
// It has no code but tests. They may import any package of this module.
package load
