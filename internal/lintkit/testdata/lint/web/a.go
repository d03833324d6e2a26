package web

import (
	_ "embed"
	_ "io/fs"
	_ "net/http" // want depguard
)
