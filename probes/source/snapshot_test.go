package source_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

// everything is a snapshot of two documents.
const everything = `{"bloom":{"m":5},"redis":{"commands":7}}`

// TestSnapshotIsShared: whoever asks while a snapshot is under way, or right
// after it, causes no request, and the request is paid for once.
func TestSnapshotIsShared(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, nil)
	release := make(chan struct{})
	c.Serve(source.PathSnapshot, func(w http.ResponseWriter, r *http.Request) {
		<-release
		probetest.JSON(everything)(w, r)
	})
	h := c.SourceWithin(t, 10*time.Second)
	var wg sync.WaitGroup
	costs := make([]probes.Cost, 8)
	for i := range costs {
		wg.Go(func() {
			var doc source.Bloom
			if _, err := h.Read(t.Context(), &costs[i], source.PathBloom, time.Hour, &doc); err != nil || doc.M.Or(0) != 5 {
				t.Errorf("got %v, %v", doc.M, err)
			}
		})
	}
	probetest.Eventually(t, "the request arrives", func() bool { return len(c.Asked()) > 0 })
	close(release)
	wg.Wait()
	var redis source.RedisClient
	var sum, late probes.Cost
	if _, err := h.Read(t.Context(), &late, source.PathRedis, time.Hour, &redis); err != nil || redis.Commands.Or(0) != 7 {
		t.Errorf("another document of the same snapshot: got %v, %v", redis.Commands, err)
	}
	for _, c := range append(costs, late) {
		sum = sum.Plus(c)
	}
	if asked := c.Asked(); len(asked) != 1 || sum.HTTPRequests != 1 || sum.Bytes != int64(len(everything)) {
		t.Errorf("asked %v at a cost of %+v, want one request, paid for once", asked, sum)
	}
	if _, err := h.Read(t.Context(), &sum, source.PathBloom, 0, new(source.Bloom)); err != nil {
		t.Error(err)
	}
	if asked := c.Asked(); len(asked) != 2 {
		t.Errorf("asked %v, want a second snapshot for who takes none from before", asked)
	}
}

// TestSnapshotOutlivesWhoAsked: the first to ask may leave; the others get what
// they wait for. When all have left the request is called off.
func TestSnapshotOutlivesWhoAsked(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, nil)
	release, gone := make(chan struct{}), make(chan struct{}, 1)
	c.Serve(source.PathSnapshot, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			probetest.JSON(everything)(w, r)
		case <-r.Context().Done():
			gone <- struct{}{}
		}
	})
	h := c.SourceWithin(t, 20*time.Second)
	read := func(ctx context.Context, cost *probes.Cost) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := h.Read(ctx, cost, source.PathBloom, 0, new(source.Bloom))
			done <- err
		}()
		return done
	}
	asked := func(n int) func() bool { return func() bool { return len(c.Asked()) == n } }

	alone, leave := context.WithCancel(t.Context())
	var cost probes.Cost
	done := read(alone, &cost)
	probetest.Eventually(t, "the request arrives", asked(1))
	leave()
	if err := <-done; !errors.Is(err, source.ErrInterrupted) || cost.HTTPRequests != 1 {
		t.Errorf("who leaves: got %v at a cost of %+v, want ErrInterrupted and the request", err, cost)
	}
	<-gone

	first, leave := context.WithCancel(t.Context())
	var paid, rest probes.Cost
	done = read(first, &paid)
	probetest.Eventually(t, "the next request arrives", asked(2))
	other := read(t.Context(), &rest)
	leave()
	close(release)
	if err := <-done; err != nil && !errors.Is(err, source.ErrInterrupted) {
		t.Errorf("who left first: %v", err)
	}
	// The other may have come after the first was gone: then it asks again.
	if err := <-other; err != nil {
		t.Errorf("who stayed: %v", err)
	}
	if n := len(c.Asked()) - 1; paid.HTTPRequests+rest.HTTPRequests != n {
		t.Errorf("paid for %d and %d requests, want %d", paid.HTTPRequests, rest.HTTPRequests, n)
	}
}

// TestWithoutSnapshot: a service that has none, or a broken one, is asked for
// the documents, and not again and again for the snapshot.
func TestWithoutSnapshot(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"absent":    http.NotFound,
		"broken":    probetest.JSON(`{"bloom":{`),
		"something": probetest.JSON(`{"error":"no such page"}`),
		"HTML":      probetest.JSON(`<html>`),
		"failing":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := probetest.NewChecker(t, map[string]string{source.PathBloom: `{"m":6}`})
			c.Serve(source.PathSnapshot, serve)
			h := c.Source(t)
			var cost probes.Cost
			for range 2 {
				var doc source.Bloom
				if err := h.Get(t.Context(), &cost, source.PathBloom, nil, &doc); err != nil || doc.M.Or(0) != 6 {
					t.Errorf("got %v, %v", doc.M, err)
				}
			}
			want := []string{"GET " + source.PathSnapshot, "GET " + source.PathBloom, "GET " + source.PathBloom}
			if asked := c.Asked(); !slices.Equal(asked, want) || cost.HTTPRequests != len(want) {
				t.Errorf("asked %v at a cost of %+v, want %v", asked, cost, want)
			}
		})
	}
}

// TestSnapshotFaults: one document that is missing or broken says nothing about
// the others; a hung service is not asked for each of them.
func TestSnapshotFaults(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, nil)
	c.Serve(source.PathSnapshot, probetest.JSON(`{"bloom":{"m":5},"redis":["hunter2"]}`))
	h := c.SourceWithin(t, 300*time.Millisecond)
	get := func(path string, into any) error {
		_, err := h.Read(t.Context(), new(probes.Cost), path, 0, into)
		return err
	}
	if err := get(source.PathBloom, new(source.Bloom)); err != nil {
		t.Error(err)
	}
	if err := get(source.PathErrors, new(source.Errors)); !errors.Is(err, source.ErrAbsent) || !strings.Contains(err.Error(), "document errors") {
		t.Errorf("a document that is not in it: got %v, want ErrAbsent", err)
	}
	if err := get(source.PathRedis, new(source.RedisClient)); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "redis: the answer is not a JSON object") {
		t.Errorf("a broken document: got %v", err)
	}
	c.Serve(source.PathSnapshot, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	before := len(c.Asked())
	for _, path := range []string{source.PathBloom, source.PathRedis} {
		if err := get(path, new(source.Bloom)); !errors.Is(err, source.ErrHung) {
			t.Errorf("%s of a hung service: got %v, want ErrHung", path, err)
		}
	}
	if n := len(c.Asked()) - before; n != 1 {
		t.Errorf("a hung service was asked %d times, want once", n)
	}
	c.Close()
	if _, err := c.Source(t).Read(t.Context(), new(probes.Cost), source.PathBloom, 0, new(source.Bloom)); !errors.Is(err, source.ErrRefused) || !strings.HasPrefix(err.Error(), "the service does not answer (") {
		t.Errorf("a dead service: got %v, want ErrRefused in the words for all", err)
	}
}

// TestTookWithoutTheWait: while another request of the agent's own is under way, the
// service has not been asked yet, be it for a snapshot or, without one, a document.
func TestTookWithoutTheWait(t *testing.T) {
	t.Parallel()
	const wait = 600 * time.Millisecond
	for _, snapshots := range []bool{true, false} {
		c := probetest.NewChecker(t, map[string]string{source.PathRedis: `{"commands":7}`})
		if snapshots {
			c.Serve(source.PathSnapshot, probetest.JSON(everything))
		}
		c.Serve(source.PathConsistency, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(wait)
			probetest.JSON(`{"sampled":1}`)(w, r)
		})
		h := c.SourceWithin(t, 10*time.Second)
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = h.Get(t.Context(), new(probes.Cost), source.PathConsistency, url.Values{"n": {"9"}}, new(source.Consistency))
		})
		probetest.Eventually(t, "the other request is under way", func() bool { return len(c.Asked()) > 0 })
		start := time.Now()
		took, err := h.Read(t.Context(), new(probes.Cost), source.PathRedis, 0, new(source.RedisClient))
		if waited := time.Since(start); err != nil || took <= 0 || took > waited-wait/2 {
			t.Errorf("snapshots %v: took %v of %v, %v; want it without the wait", snapshots, took, waited, err)
		}
		wg.Wait()
	}
}
