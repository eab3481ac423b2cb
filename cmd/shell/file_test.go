package shell_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/regpath/diagnose/cmd/shell"
)

func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) {
		t.Helper()
		data, err := shell.ReadFile(path, 5)
		got := string(data)
		if err != nil {
			got = err.Error()
		}
		if want = strings.ReplaceAll(want, "PATH", path); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(write("five", "12345"), "12345")
	f(write("empty", ""), "")
	f(write("six", "123456"), "read PATH: is larger than 0 MB, which cannot be meant")
	f(filepath.Join(dir, "gone"), "open PATH: no such file or directory")
	f(dir, "read PATH: is a folder; want a file")
	f(pipe, "read PATH: is a pipe that nobody writes to")
	f("/dev/zero", "read PATH: is larger than 0 MB, which cannot be meant")

	// As a shell hands on what a command prints: the reader waits for it.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	go func() {
		_, _ = w.WriteString("late")
		_ = w.Close()
	}()
	f(fmt.Sprintf("/dev/fd/%d", r.Fd()), "late")
}

func TestReadSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := func(path, want string) {
		t.Helper()
		got, err := shell.ReadSecret(path)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(" word\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f(text, "word")
	f(os.DevNull, "secret file "+os.DevNull+" is empty")
	f(dir, "read secret file "+dir+": is a folder; want a file")
	f("postgres://u:s3cret@h/db", "looks like the secret itself and is not shown")
}
