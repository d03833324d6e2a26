package netguard

import (
	_ "github.com/perdure/perdure/core/ident" // want depguard
	_ "net"
)
