package core

import (
	_ "time"
)
