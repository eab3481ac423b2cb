package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

func TestHTTPSendsTheToken(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, nil)
	c.Serve("/base"+source.PathBloom, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hunter2" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		probetest.JSON(`{"m":5}`)(w, r)
	})
	for token, want := range map[source.Secret]error{"hunter2": nil, "": source.ErrDenied, "other": source.ErrDenied} {
		h, err := source.NewHTTP(source.HTTPOptions{URL: c.URL() + "/base", Token: token})
		if err != nil {
			t.Fatal(err)
		}
		var doc source.Bloom
		err = h.Get(t.Context(), new(probes.Cost), source.PathBloom, nil, &doc)
		if !errors.Is(err, want) {
			t.Errorf("token %q: got %v, want %v", string(token), err, want)
		}
		if want == nil && (doc.M.Or(0) != 5 || doc.K.Named("").Why() == "" || !strings.Contains(doc.K.Why(), "k is left out")) {
			t.Errorf("document: got %+v", doc)
		}
		h.Close()
	}
}

func TestHTTPFailuresAreToldApart(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, nil)
	hung := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	c.Serve(source.PathRedis, hung)
	c.Serve(source.PathShards, probetest.JSON(`{"shards":[]}`))
	h := c.SourceWithin(t, 200*time.Millisecond)
	get := func(path string) (time.Duration, error) {
		start := time.Now()
		err := h.Get(t.Context(), new(probes.Cost), path, nil, new(source.RedisClient))
		return time.Since(start), err
	}
	if _, err := get(source.PathRedis); !errors.Is(err, source.ErrHung) {
		t.Errorf("hanging document: got %v, want ErrHung", err)
	}
	if took, err := get(source.PathRedis); !errors.Is(err, source.ErrHung) || took > 100*time.Millisecond {
		t.Errorf("again: got %v after %v, want the same at once", err, took)
	}
	if _, err := get(source.PathShards); err != nil {
		t.Errorf("another document of the same service: %v", err)
	}
	if _, err := get(source.PathErrors); !errors.Is(err, source.ErrAbsent) {
		t.Errorf("absent document: got %v, want ErrAbsent", err)
	}
	c.Close()
	if _, err := get(source.PathShards); !errors.Is(err, source.ErrRefused) {
		t.Errorf("closed service: got %v, want ErrRefused", err)
	}
	if _, err := get(source.PathBloom); !errors.Is(err, source.ErrRefused) || err.Error() != "the service does not answer ("+c.URL()+": connection refused)" {
		t.Errorf("any document of a dead service: got %v, want the same words for all", err)
	}
}

func TestHTTPOpen(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, map[string]string{source.PathChanges: `{"changes":[]}`})
	h := c.Source(t)
	if err := h.Open(t.Context()); err != nil {
		t.Errorf("open: %v", err)
	}
	for _, path := range []string{source.PathChanges, source.PathChanges} {
		if err := h.Get(t.Context(), new(probes.Cost), path, nil, new(source.Changes)); err != nil {
			t.Error(err)
		}
	}
	if n := c.MostConns(); n != 1 {
		t.Errorf("%d connections, want the one that was opened", n)
	}
	if err := probetest.NewChecker(t, nil).Source(t).Open(t.Context()); err != nil {
		t.Errorf("a service without changes: %v", err)
	}
}

func TestHTTPOpensOneConnection(t *testing.T) {
	t.Parallel()
	c := probetest.NewChecker(t, nil)
	release := make(chan struct{})
	c.Serve(source.PathShards, func(w http.ResponseWriter, r *http.Request) {
		<-release
		probetest.JSON(`{"shards":[]}`)(w, r)
	})
	h := c.SourceWithin(t, 10*time.Second)
	done := make(chan error, 12)
	for range cap(done) {
		go func() { done <- h.Get(t.Context(), new(probes.Cost), source.PathShards, nil, new(source.Shards)) }()
	}
	probetest.Eventually(t, "a document is asked for", func() bool { return slices.Contains(c.Asked(), "GET "+source.PathShards) })
	close(release)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := c.MostConns(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestNewHTTPRefuses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "localhost:8080", "ftp://h", "http://", "http://u:hunter2@h", "http://h?token=hunter2", "http://h#x", "http://h:port/hunter2"} {
		_, err := source.NewHTTP(source.HTTPOptions{URL: bad})
		if err == nil {
			t.Errorf("%q: got no error", bad)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error holds a secret: %v", bad, err)
		}
	}
}

func TestSecretHidesItself(t *testing.T) {
	t.Parallel()
	options := source.RedisOptions{Password: "hunter2"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", options.Password, "options", options)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", options.Password)
	raw, err := json.Marshal(map[string]source.Secret{"password": options.Password})
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(raw) + fmt.Sprintf("%v %+v %#v %s %q %x", options, options, options, options.Password, options.Password, options.Password)
	if strings.Contains(all, "hunter2") || strings.Contains(all, "68756e746572") || !strings.Contains(all, "<secret>") {
		t.Errorf("got %s", all)
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	sample := func(agent, own time.Duration, epoch string) source.Sample {
		s := source.Sample{Taken: at.Add(agent), Epoch: epoch}
		if own >= 0 {
			s.Now = source.At(at.Add(own))
		}
		return s
	}
	for name, tt := range map[string]struct {
		a, b source.Sample
		want time.Duration
	}{
		"own clock":     {sample(0, 0, "x"), sample(3*time.Second, 2900*time.Millisecond, "x"), 2900 * time.Millisecond},
		"no own clock":  {sample(0, -1, ""), sample(3*time.Second, -1, ""), 3 * time.Second},
		"clock jumped":  {sample(0, 0, "x"), sample(3*time.Second, time.Hour, "x"), 3 * time.Second},
		"clock stands":  {sample(0, 0, "x"), sample(3*time.Second, 0, "x"), 3 * time.Second},
		"restarted":     {sample(0, 0, "x"), sample(3*time.Second, 3*time.Second, "y"), 0},
		"at one moment": {sample(0, 0, "x"), sample(0, 0, "x"), 0},
	} {
		if got := source.Between(tt.a, tt.b).Duration(); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	span := source.Between(sample(0, 0, ""), sample(2*time.Second, 2*time.Second, ""))
	if v, ok := span.Rate(probes.Known(10), probes.Known(30)).Get(); !ok || v != 10 {
		t.Errorf("rate: got %v", v)
	}
	if n := span.Delta(probes.Known(30), probes.Known(10)); !strings.Contains(n.Why(), "went down") {
		t.Errorf("counter that went down: got %v because %q", n, n.Why())
	}
	if n := source.NoSpan("too late").Rate(probes.Known(1), probes.Known(2)); n.Why() != "too late" {
		t.Errorf("no span: got %q", n.Why())
	}
}

func TestWaitShortens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := func(deadline, window, want time.Duration) {
			t.Helper()
			ctx, cancel := contextWithin(t, deadline)
			defer cancel()
			start := time.Now()
			err := source.Wait(ctx, window)
			if got := time.Since(start); got != want || (err == nil) != (want > 0) {
				t.Errorf("deadline %v, window %v: waited %v, %v, want %v", deadline, window, got, err, want)
			}
		}
		f(0, 3*time.Second, 3*time.Second)
		f(10*time.Second, 3*time.Second, 3*time.Second)
		f(2*time.Second, 3*time.Second, 1500*time.Millisecond)
		f(time.Second, 3*time.Second, 500*time.Millisecond)
		f(900*time.Millisecond, 3*time.Second, 0)
	})
}

// The circuit of a dead target closes after a short while.
func TestCircuitCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		circuit := source.NewCircuit()
		circuit.Note(source.ErrHung)
		if err := circuit.Check(); !errors.Is(err, source.ErrHung) {
			t.Errorf("right after: got %v", err)
		}
		circuit.Note(source.ErrAnswered) // tells nothing about being dead
		if circuit.Check() == nil {
			t.Error("an error answer closes the circuit")
		}
		<-time.After(5 * time.Second)
		if err := circuit.Check(); err != nil {
			t.Errorf("5 s later: got %v", err)
		}
		circuit.Note(source.ErrInterrupted)
		circuit.Note(source.ErrDenied)
		if err := circuit.Check(); err != nil {
			t.Errorf("what does not mean dead opens the circuit: %v", err)
		}
		circuit.Note(source.ErrRefused)
		circuit.Note(nil)
		if err := circuit.Check(); err != nil {
			t.Errorf("success does not close the circuit: %v", err)
		}
	})
}

func contextWithin(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	t.Helper()
	if d == 0 {
		return context.WithCancel(t.Context())
	}
	return context.WithTimeout(t.Context(), d)
}

// TestWaitStandsBy: a check that stands by waits until it is released, though not
// for less than a second, or until its time is up.
func TestWaitStandsBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := func(until, release, want time.Duration) {
			t.Helper()
			start := time.Now()
			standby := probes.NewStandby(start.Add(until))
			ctx := standby.Context(t.Context())
			if !probes.Recording(ctx) || !standby.Parked().IsZero() {
				t.Error("it is not for the record, or parked before it waits")
			}
			time.AfterFunc(release, standby.Release)
			err := source.Wait(ctx, 3*time.Second)
			if got := time.Since(start); err != nil || got != want || !standby.Parked().Equal(start) {
				t.Errorf("until %v, released after %v: waited %v, %v, want %v", until, release, got, err, want)
			}
			if probes.Recording(ctx) != (release > want) {
				t.Errorf("until %v, released after %v: for the record: %v", until, release, probes.Recording(ctx))
			}
		}
		f(10*time.Second, time.Hour, 10*time.Second)
		f(10*time.Second, 4*time.Second, 4*time.Second)
		f(10*time.Second, time.Second, time.Second)
		f(10*time.Second, 200*time.Millisecond, time.Second)
		f(time.Second, 0, time.Second)
		f(0, time.Hour, 500*time.Millisecond)
		begun := time.Now()
		if err := source.Wait(probes.WithWindow(t.Context(), time.Second), 3*time.Second); err != nil || time.Since(begun) != time.Second {
			t.Errorf("a window of 1 s from outside: waited %v, %v", time.Since(begun), err)
		}
	})
}
