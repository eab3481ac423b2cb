package webhook

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
)

// TestKilled: an agent is killed after its 2xx, before or during the work; the
// next one on the store does the work at once, and once.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		works   bool
		attempt int
		memo    string
	}{
		{"before the work", false, 1, ""},
		{"during the work", true, 2, "posted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := newStore(t)
			killAfterAnswer(t, path, tt.works)

			w := &fakeWorker{do: func(ctx context.Context, _ playbooks.Incident, memo Memo) error {
				if b, _, err := memo.Get(ctx, "mark"); err != nil || string(b) != tt.memo {
					t.Errorf("memo: got %q, %v, want %q", b, err, tt.memo)
				}
				return nil
			}}
			in := openInboxAt(t, path, Options{Worker: w, Lease: 3 * time.Second})
			if r := onlyIncident(t, in); r.State != StateOpen || !r.Pending {
				t.Fatalf("after the crash: got %+v, want it open and pending", r)
			}
			start(t, in)
			settle(t, in) // which has less patience than River with a job that hangs
			calls := w.all()
			if len(calls) != 1 || calls[0].attempt != tt.attempt || calls[0].in.Title != "HighErrorRate" {
				t.Errorf("got %+v, want one call, attempt %d", calls, tt.attempt)
			}
			// The sender, who may not have got the answer, repeats.
			wantPost(t, newHandler(in), "v35-firing-single.json", Repeated)
			settle(t, in)
			if got := len(w.all()); got != 1 {
				t.Errorf("got %d calls after a repetition, want 1", got)
			}
		})
	}
}

// killAfterAnswer runs an agent as a process of its own, posts an alert to it,
// and kills it once it has answered and, if it works, the work has begun.
func killAfterAnswer(t *testing.T, path string, works bool) {
	t.Helper()
	cmd, lines, url := startChild(t, path, works)
	// Two processes cannot have the file, whichever way they start.
	if !IsPostgres(path) {
		if in, err := Open(t.Context(), path, Options{Worker: &fakeWorker{}}); err == nil {
			stop(t, in)
			t.Error("opened a store that another process has open")
		}
	}
	if code, err := fetch(t, http.MethodPost, url, string(readCase(t, "v35-firing-single.json"))); err != nil || code != http.StatusOK {
		t.Fatalf("post: got %d, %v, want 200", code, err)
	}
	if works && !lines.Scan() {
		t.Fatal("the child did not begin to work")
	}
	kill(t, cmd)
}

// startChild runs an agent as a process of its own and returns what it prints and
// where it listens.
func startChild(t *testing.T, path string, works bool) (*exec.Cmd, *bufio.Scanner, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	if works {
		cmd.Env = append(cmd.Env, childEnv+"_WORKS=1")
	}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the child said nothing: %v", cmd.Wait())
	}
	return cmd, lines, "http://" + lines.Text()
}

// kill ends a child as a crash would.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended well, want it killed")
	}
}
