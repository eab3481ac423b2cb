package main

import (
	"path/filepath"
	"testing"
)

func TestDocs(t *testing.T) {
	t.Parallel()
	says(t, exitHealthy, []string{"docs"}, read(t, filepath.Join("..", "..", "playbooks", "builtin", "registration-path.md")))
	says(t, exitHealthy, []string{"docs", write(t, "tiny.yaml", tiny)}, "from tiny.yaml", "### redis-down\n\n**Redis is down.**", "- Start it.")
	says(t, exitUsage, []string{"docs", "gone.yaml"}, "no such file")
	says(t, exitUsage, []string{"docs", write(t, "bad.yaml", "name: bad")}, "bad.yaml:1:1: steps: no steps")
}
