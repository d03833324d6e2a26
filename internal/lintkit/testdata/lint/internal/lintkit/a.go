package lintkit

import (
	_ "testing"
)
