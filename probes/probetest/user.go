package probetest

import (
	"os/user"
	"strconv"
	"syscall"
)

func credential(name string) *syscall.Credential {
	u, err := user.Lookup(name)
	if err != nil {
		return nil
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}
}
