package main

import (
	"bytes"
	"syscall"
	"testing"

	"github.com/regpath/diagnose/cmd/shell"
)

// closed is a stdout whose reader has gone.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestUnread: what nobody reads ends quietly.
func TestUnread(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, closed{}, &stderr); code != shell.ExitUnread || stderr.Len() > 0 {
		t.Errorf("got exit code %d and %q, want %d, quietly", code, &stderr, shell.ExitUnread)
	}
}
