//go:build !linux

package local

import (
	"os"
	"syscall"
)

// attributes has no signal for the death of the parent: only Linux knows it.
func attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalTree reaches the parent alone.
func signalTree(parent *os.Process, sig syscall.Signal) error { return parent.Signal(sig) }
