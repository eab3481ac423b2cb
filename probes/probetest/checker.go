package probetest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes/source"
)

// Checker is a fake service that serves documents of the diagnostic contract
// and remembers what it was asked.
type Checker struct {
	server *httptest.Server

	mu       sync.Mutex
	handlers map[string]http.HandlerFunc
	asked    []string
	aborted  int
	conns    map[net.Conn]bool
	most     int
}

// NewChecker starts a checker that serves the given JSON documents by path and
// 404 for everything else.
func NewChecker(t testing.TB, docs map[string]string) *Checker {
	t.Helper()
	c := &Checker{handlers: make(map[string]http.HandlerFunc), conns: make(map[net.Conn]bool)}
	for path, doc := range docs {
		c.Serve(path, JSON(doc))
	}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(c.handle))
	c.server.Config.ConnState = c.count
	c.server.Start()
	t.Cleanup(func() {
		c.server.CloseClientConnections()
		c.server.Close()
	})
	return c
}

// JSON returns a handler that answers with doc.
func JSON(doc string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(doc))
	}
}

// ServeSnapshot serves, from now on, a snapshot of those of docs that take no
// query, and returns the requests that it makes needless.
func (c *Checker) ServeSnapshot(docs map[string]string) (needless []string) {
	var parts []string
	for path, doc := range docs {
		name := strings.TrimPrefix(path, "/debug/diagnose/")
		if !strings.Contains(name, "/") {
			parts = append(parts, fmt.Sprintf("%q:%s", name, doc))
			needless = append(needless, "GET "+path)
		}
	}
	c.Serve(source.PathSnapshot, JSON("{"+strings.Join(parts, ",")+"}"))
	return needless
}

// Abort is a handler that drops the connection instead of answering.
func Abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// Serve sets what is served at path from now on.
func (c *Checker) Serve(path string, h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[path] = h
}

// URL returns the checker's base URL.
func (c *Checker) URL() string { return c.server.URL }

// Source returns a source that reads from the checker.
func (c *Checker) Source(t testing.TB) *source.HTTP {
	t.Helper()
	return c.SourceWithin(t, 0)
}

// SourceWithin returns a source whose requests are bounded by timeout.
func (c *Checker) SourceWithin(t testing.TB, timeout time.Duration) *source.HTTP {
	t.Helper()
	h, err := source.NewHTTP(source.HTTPOptions{URL: c.server.URL, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// Close stops listening and drops all connections: from now on they are refused.
func (c *Checker) Close() {
	_ = c.server.Listener.Close()
	c.server.CloseClientConnections()
}

// Asked returns the requests so far, each as "GET /path".
func (c *Checker) Asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}

// MostConns returns the largest number of connections that stood at one time.
func (c *Checker) MostConns() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

func (c *Checker) handle(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	h := c.handlers[r.URL.Path]
	c.mu.Unlock()
	if h == nil {
		h = http.NotFound
	}
	defer func() {
		if v := recover(); v != nil {
			c.mu.Lock()
			c.aborted++
			c.mu.Unlock()
			panic(v)
		}
	}()
	h(w, r)
}

// Aborted returns how many requests ended with a dropped connection.
func (c *Checker) Aborted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aborted
}

func (c *Checker) count(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state { //nolint:exhaustive // the states between are of no interest
	case http.StateNew:
		c.conns[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(c.conns, conn)
	}
	c.most = max(c.most, len(c.conns))
}
