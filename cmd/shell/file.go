package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// More than any such file has. Whoever names another one by mistake is told so, before
// it fills the memory.
const (
	MaxText      = 4 << 20  // what people write: configurations, playbooks, secrets
	MaxRecording = 64 << 20 // what diagnose run --record writes
)

// ReadText reads a file that people write.
func ReadText(path string) ([]byte, error) { return ReadFile(path, MaxText) }

// ReadFile reads a file that the user named, up to a limit. Its errors are of the type
// *fs.PathError. A pipe is read to its end, as of `<(pass show shard0)`; for one that
// nobody has opened for writing it does not wait.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	data, err := readAll(f, limit)
	if err = errors.Join(err, f.Close()); err == nil {
		return data, nil
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	return nil, &fs.PathError{Op: "read", Path: path, Err: err}
}

func readAll(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("is a folder; want a file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("is larger than %d MB, which cannot be meant", limit>>20)
	case len(data) == 0 && info.Mode()&fs.ModeNamedPipe != 0:
		return nil, errors.New("is a pipe that nobody writes to")
	}
	return data, nil
}

// ReadSecret reads a secret from a file, without the white space around it.
func ReadSecret(path string) (string, error) {
	data, err := ReadText(path)
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	switch {
	case err != nil && looksSecret(path):
		return "", errors.New("want the name of a file that holds the secret; what stands there looks like the secret itself and is not shown")
	case err != nil:
		return "", fmt.Errorf("read secret file %s: %w", path, err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("secret file %s is empty", path)
	}
	return text, nil
}

// looksSecret tells what may be a secret from the name of a file, which is none: a
// URL, a connection string, what comes from Slack.
func looksSecret(path string) bool {
	return strings.ContainsAny(path, "@=") || strings.Contains(path, "://") || strings.HasPrefix(path, "xox")
}
