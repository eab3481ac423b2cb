package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// folder is a temporary folder that is removed in any case: by remove, or by a janitor when this process dies first.
type folder struct {
	path    string
	janitor *exec.Cmd
	input   io.Closer // the janitor waits for its end
	once    sync.Once
	err     error
}

// janitorScript reads until its input ends, which is when the other end of the pipe is closed, by us or by the kernel on
// our death. Servers may need a moment to die and write while they do, so that it tries again for up to ten seconds.
const janitorScript = `cat >/dev/null
i=0
while [ -e "$1" ] && [ "$i" -lt 100 ]; do
	rm -rf -- "$1" 2>/dev/null
	i=$((i+1))
	sleep 0.1
done`

// newFolder makes a folder for the account, or for this process where that is nil.
func newFolder(as *account) (*folder, error) {
	parent, err := parentFolder(as)
	if err != nil {
		return nil, err
	}
	path, err := os.MkdirTemp(parent, "checker-")
	if err != nil {
		return nil, err
	}
	f := &folder{path: path}
	if as != nil {
		if err := os.Chown(path, int(as.uid), int(as.gid)); err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
	f.janitor = exec.Command("sh", "-c", janitorScript, "sh", path) //nolint:noctx // its end is that of its input
	f.janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}     // out of reach of Ctrl-C
	f.janitor.Dir = "/"
	f.input, err = f.janitor.StdinPipe()
	if err == nil {
		err = f.janitor.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the janitor of %s: %w", path, err), os.RemoveAll(path))
	}
	return f, nil
}

// remove deletes the folder with everything in it and dismisses the janitor. It may be called again.
func (f *folder) remove() error {
	f.once.Do(func() {
		f.err = errors.Join(os.RemoveAll(f.path), f.input.Close(), f.janitor.Wait())
	})
	return f.err
}

func (f *folder) join(name string) string { return filepath.Join(f.path, name) }

// parentFolder is the first of the system's temporary folders that the account can search. That of root may lie in a
// folder which is closed to all others; the server then fails with no more than "permission denied".
func parentFolder(as *account) (string, error) {
	if as == nil {
		return os.TempDir(), nil
	}
	candidates := []string{os.TempDir(), "/tmp", "/var/tmp"}
	for _, c := range candidates {
		if searchable(c) {
			return c, nil
		}
	}
	return "", fmt.Errorf("none of %q can be searched by every user, as PostgreSQL under an account of its own needs it", candidates)
}

// searchable tells whether everybody may search the folder and all above it.
func searchable(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	for ; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if path == filepath.Dir(path) {
			return true
		}
	}
}
