package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

func attributes(deathSignal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}

// signalTree sends a signal to a process and then to its children. A paused parent makes no new ones meanwhile.
func signalTree(parent *os.Process, sig syscall.Signal) error {
	if err := parent.Signal(sig); err != nil {
		return err
	}
	children, err := childrenOf(parent.Pid)
	if err != nil {
		return err
	}
	for _, pid := range children {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// childrenOf finds the children of a process in /proc: the fourth field of stat is the parent, after a command name in
// brackets that may itself hold blanks and brackets.
func childrenOf(parent int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var children []int
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended between the two calls
		}
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		children = append(children, pid)
	}
	return children, nil
}
