package main

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// More than any such file has. Whoever names another one by mistake is told so, before
// it fills the memory.
const (
	maxText      = 4 << 20  // what people write: configurations, tests, secrets
	maxRecording = 64 << 20 // what run --record writes
)

// readFile reads a file that the user named, up to a limit.
func readFile(path string, limit int64) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MB, which cannot be meant", path, limit>>20)
	}
	return data, err
}
