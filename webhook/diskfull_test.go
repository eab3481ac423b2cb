package webhook

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles keeps the files of a child from growing beyond so many bytes.
func limitFiles(t *testing.T, cmd *exec.Cmd, bytes uint64) {
	t.Helper()
	// Only the soft limit: it must be possible to raise it again.
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: math.MaxUint64}, nil); err != nil {
		t.Fatalf("limit the child's files: %v", err)
	}
}

// TestDiskFull: an agent whose files cannot grow answers 503, keeps all that it
// answered 200, and takes the repetition in once there is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	cmd, _, url := startChild(t, path, false)
	posts := func(group int, want int) {
		t.Helper()
		body := string(message(fmt.Sprint("group ", group), nil, firing(fmt.Sprint("a", group), 5)))
		if code, err := fetch(t, http.MethodPost, url, body); err != nil || code != want {
			t.Errorf("group %d: got %d, %v, want %d", group, code, err, want)
		}
	}
	for group := range 3 {
		posts(group, http.StatusOK)
	}
	wal, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	limitFiles(t, cmd, uint64(wal.Size()))
	for group := 3; group < 6; group++ {
		posts(group, http.StatusServiceUnavailable)
	}
	limitFiles(t, cmd, math.MaxUint64)
	for group := 2; group < 6; group++ {
		posts(group, http.StatusOK)
	}
	kill(t, cmd)
	in := openInboxAt(t, path, Options{})
	if got := incidents(t, in); len(got) != 6 {
		t.Errorf("got %d incidents, want the 6 that were answered 200: %+v", len(got), got)
	}
}
