package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
)

const (
	// Fresh is how old a snapshot may be to stand for one that is taken now. It
	// is long enough for the steps of a run, which begin together, to share
	// one, and less than half of MinWindow, so that two samples of one document
	// never come from the same snapshot.
	Fresh = 200 * time.Millisecond
	// absentFor is how long a service that serves no snapshot is taken at its
	// word: asking it in vain once a minute is cheap, and a service that was
	// upgraded is noticed.
	absentFor = time.Minute
)

// errNoSnapshot means that the service answers, but with no snapshot.
var errNoSnapshot = errors.New("no snapshot")

// Read reads the document at path, which has no query, into the struct behind
// into. It comes from a snapshot of all documents that is not older than age:
// from the last one, from one that is just being taken, or from a new one. Who
// caused a request bears its cost; whoever shares it pays nothing. A service
// that serves no snapshot is asked for the document itself. took is how long the
// service took to answer that request, whoever waited for it and for what before.
func (h *HTTP) Read(ctx context.Context, cost *probes.Cost, path string, age time.Duration, into any) (took time.Duration, err error) {
	name, ok := strings.CutPrefix(path, pathDocuments)
	if !ok || strings.Contains(name, "/") {
		return h.do(ctx, cost, http.MethodGet, path, nil, nil, into)
	}
	f, err := h.snapshot(ctx, cost, age)
	switch {
	case errors.Is(err, errNoSnapshot):
		return h.do(ctx, cost, http.MethodGet, path, nil, nil, into)
	case errors.Is(err, ErrRefused), errors.Is(err, ErrUnreachable):
		return 0, h.silent(err)
	case err != nil:
		return 0, fmt.Errorf("GET %s: %w", PathSnapshot, err)
	}
	document, ok := f.documents[name]
	if !ok {
		return f.took, fmt.Errorf("GET %s: %w", PathSnapshot, fail(ErrAbsent, "the service does not serve the document "+name))
	}
	if err := decode(document, into); err != nil {
		return f.took, fmt.Errorf("GET %s: %s: %w", PathSnapshot, name, err)
	}
	return f.took, nil
}

// snapshots shares the snapshots of one service among those who ask at once.
// The zero value is ready for use.
type snapshots struct {
	mu      sync.Mutex
	running *flight // under way
	last    *flight // the last that brought documents
	// none is until when the service is taken to have no snapshot.
	none time.Time
}

// flight is one request for a snapshot.
type flight struct {
	begun  time.Time
	cancel context.CancelFunc
	done   chan struct{}
	// waiters counts those who wait for it; when the last leaves it is called off.
	waiters int
	// What follows is set before done is closed. cost is what nobody has borne yet.
	cost      probes.Cost
	took      time.Duration
	documents map[string]json.RawMessage
	err       error
}

// snapshot returns a flight that brought a snapshot not older than age. It
// returns errNoSnapshot if the service is alive and there is none.
func (h *HTTP) snapshot(ctx context.Context, cost *probes.Cost, age time.Duration) (*flight, error) {
	if err := ctx.Err(); err != nil {
		return nil, interrupted(err)
	}
	s := &h.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && time.Since(s.last.begun) <= age {
		return s.last, nil
	}
	if time.Now().Before(s.none) {
		return nil, errNoSnapshot
	}
	f := s.running
	if f == nil {
		if err := h.dead.reason(); err != nil {
			return nil, err
		}
		if err := h.circuit(PathSnapshot).check(); err != nil {
			return nil, err
		}
		f = h.takeOff(ctx)
	}
	f.waiters++
	s.mu.Unlock()
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	f.waiters--
	if ctx.Err() != nil {
		if f.waiters == 0 {
			f.cancel()
			if s.running == f { // who comes now must not join what is called off
				s.running = nil
			}
			s.mu.Unlock()
			<-f.done
			s.mu.Lock()
			*cost, f.cost = cost.Plus(f.cost), probes.Cost{}
		}
		return nil, interrupted(ctx.Err())
	}
	*cost, f.cost = cost.Plus(f.cost), probes.Cost{}
	return f, f.err
}

// takeOff begins a flight, which does not end with ctx: others may wait for it.
// The caller holds the lock of h.snapshots.
func (h *HTTP) takeOff(ctx context.Context) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{begun: time.Now(), cancel: cancel, done: make(chan struct{})}
	h.snapshots.running = f
	go func() {
		defer cancel()
		var cost probes.Cost
		answer, took, err := h.send(ctx, &cost, http.MethodGet, PathSnapshot, nil, nil)
		f.took = took
		if err == nil {
			f.documents, err = documentsOf(answer)
		}
		h.land(f, cost, err)
	}()
	return f
}

// land ends a flight and notes what its outcome says about the service.
func (h *HTTP) land(f *flight, cost probes.Cost, err error) {
	s := &h.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(f.done)
	if s.running == f {
		s.running = nil
	}
	f.cost, f.err = cost, err
	slow := h.circuit(PathSnapshot)
	switch {
	case err == nil:
		s.last = f
		h.dead.note(nil)
		slow.note(nil)
	case errors.Is(err, ErrInterrupted):
	case errors.Is(err, ErrHung):
		slow.note(err)
	case Dead(err):
		h.dead.note(err)
	case errors.Is(err, ErrAbsent):
		s.none, f.err = time.Now().Add(absentFor), errNoSnapshot
	default: // broken: what the documents are like will be told one by one
		s.none, f.err = time.Now().Add(openFor), errNoSnapshot
	}
}

// documentsOf takes a snapshot apart. Something that holds no document at all is
// no snapshot.
func documentsOf(answer []byte) (map[string]json.RawMessage, error) {
	var documents map[string]json.RawMessage
	if err := json.Unmarshal(answer, &documents); err != nil {
		return nil, jsonReason(err)
	}
	for _, d := range documents {
		if bytes.HasPrefix(bytes.TrimSpace(d), []byte("{")) {
			return documents, nil
		}
	}
	return nil, errNoSnapshot
}
