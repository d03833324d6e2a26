package e2e

import (
	"os/exec"
	"syscall"
)

// tied lets a server end with the tests, also when they end by a panic.
func tied(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
