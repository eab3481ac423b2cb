package shell_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/regpath/diagnose/cmd/shell"
)

// deaf fails every write.
type deaf struct {
	err    error
	writes int
}

func (d *deaf) Write([]byte) (int, error) { d.writes++; return 0, d.err }

func TestStdout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		err      error
		code     int
		want     string
		failures int
	}{
		{"fine", nil, 3, "", 0},
		{"full", syscall.ENOSPC, shell.ExitUnwritten, "x: write to stdout: no space left on device: the output is not complete\n", 1},
		{"unread", fmt.Errorf("write: %w", syscall.EPIPE), shell.ExitUnread, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			failures := 0
			out := shell.NewStdout(&deaf{err: c.err}, func() { failures++ })
			for range 2 {
				if n, err := io.WriteString(out, "text"); n != 4 || err != nil {
					t.Errorf("Write = %d, %v; want it taken, whatever becomes of it", n, err)
				}
			}
			var stderr bytes.Buffer
			if code := out.Exit(3, "x", &stderr); code != c.code || stderr.String() != c.want || failures != c.failures {
				t.Errorf("Exit = %d, %q after %d calls of failed; want %d, %q after %d", code, &stderr, failures, c.code, c.want, c.failures)
			}
		})
	}
	d := &deaf{err: syscall.ENOSPC}
	out := shell.NewStdout(d, nil)
	_, _ = io.Copy(out, io.MultiReader(strings.NewReader("a"), strings.NewReader("b")))
	if d.writes != 1 {
		t.Errorf("%d writes, want none after the first that failed", d.writes)
	}
}
