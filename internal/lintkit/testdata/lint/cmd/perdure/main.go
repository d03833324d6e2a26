package main

import (
	_ "github.com/perdure/perdure/core/replay"
	_ "github.com/perdure/perdure/core/session" // want depguard
	_ "github.com/perdure/perdure/internal/chat"
	_ "github.com/perdure/perdure/internal/client"
	_ "github.com/perdure/perdure/internal/host" // want depguard
	_ "github.com/perdure/perdure/internal/local"
)

func main() {}
