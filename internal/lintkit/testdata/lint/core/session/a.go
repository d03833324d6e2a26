package session

import (
	_ "bytes"
	_ "cmp"
	_ "context" // want depguard
	_ "crypto/sha256"
	_ "encoding/binary"
	_ "encoding/hex"
	_ "encoding/json"
	_ "errors"
	_ "fmt"
	_ "github.com/perdure/perdure/core/ident"
	_ "github.com/perdure/perdure/internal/env" // want depguard
	_ "iter"                                    // want depguard
	_ "log/slog"                                // want depguard
	_ "maps"                                    // want depguard
	_ "math"
	_ "math/bits"
	_ "math/rand" // want depguard
	_ "os"        // want depguard
	_ "slices"
	_ "sort" // want depguard
	_ "strconv"
	_ "strings"
	_ "sync"    // want depguard
	_ "time"    // want depguard
	_ "unicode" // want depguard
	_ "unicode/utf8"
)
