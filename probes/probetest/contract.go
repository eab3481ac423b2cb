package probetest

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Subject is a kind of probe that must keep the contract.
type Subject struct {
	// Kind returns the kind, reading from api alone; api may be nil.
	Kind func(api *source.HTTP) probes.Kind
	// Decode sets the options: the shortest window, to keep tests quick.
	Decode func(any) error
	// Docs are what a healthy service answers, by path.
	Docs map[string]string
	// Allowed are all requests that the probe may make: "GET /path".
	Allowed []string
	// Requests is the largest number of requests of one Check of a service that
	// has no snapshot.
	Requests int
	// Knows names facts that are known even without a service.
	Knows []string
}

// Run holds s against the contract of probes.Probe: whatever the service
// answers, or whether it answers at all, the probe returns in time, with
// documented facts and finite values only, says what is missing, does nothing
// but its documented requests, and owns up to them.
func Run(t *testing.T, s Subject) {
	t.Run("documents its facts", func(t *testing.T) { s.documented(t) })
	t.Run("healthy", func(t *testing.T) { s.healthy(t) })
	t.Run("in a snapshot", func(t *testing.T) { s.snapshot(t) })
	t.Run("without a service", func(t *testing.T) { s.without(t) })
	t.Run("half-broken answers", func(t *testing.T) { s.broken(t) })
	t.Run("broken numbers", func(t *testing.T) { s.numbers(t) })
	t.Run("hanging", func(t *testing.T) { s.hanging(t) })
	t.Run("refused", func(t *testing.T) { s.refused(t) })
	t.Run("cancelled", func(t *testing.T) { s.cancelled(t) })
}

// Valid fails the test unless the outcome of a Check keeps the contract.
func Valid(t testing.TB, docs []probes.FactDoc, ev probes.Evidence, err error) {
	t.Helper()
	units := make(map[string]probes.Unit, len(docs))
	signed := make(map[string]bool, len(docs))
	for _, d := range docs {
		units[d.Name], signed[d.Name] = d.Unit, d.Signed
	}
	said := make(map[string]bool)
	say := func(name string) {
		if said[name] {
			t.Errorf("fact %s is reported twice", name)
		}
		said[name] = true
		if _, ok := units[name]; !ok {
			t.Errorf("fact %s is not documented", name)
		}
	}
	for _, f := range ev.Facts {
		say(f.Name)
		if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			t.Errorf("%s is %v", f.Name, f.Value)
		}
		if f.Value < 0 && !signed[f.Name] {
			t.Errorf("%s is negative: %v", f.Name, f.Value)
		}
		if f.Unit != units[f.Name] {
			t.Errorf("%s has unit %q, documented is %q", f.Name, f.Unit, units[f.Name])
		}
		if f.Interval != nil && (f.Interval.Low > f.Value || f.Interval.High < f.Value) {
			t.Errorf("%s = %v lies outside its interval %v", f.Name, f.Value, *f.Interval)
		}
	}
	for _, m := range ev.Missing {
		if m.Reason == "" || len(m.Facts) == 0 {
			t.Errorf("missing without facts or reason: %+v", m)
		}
		for _, name := range m.Facts {
			say(name)
		}
	}
	for name := range units {
		if !said[name] {
			t.Errorf("fact %s is neither reported nor missing", name)
		}
	}
	if (err != nil) != (len(ev.Facts) == 0) {
		t.Errorf("%d facts and error %v: an error means that nothing could be measured", len(ev.Facts), err)
	}
	if ev.Source == "" || ev.At.IsZero() {
		t.Errorf("evidence without source or time: %q, %v", ev.Source, ev.At)
	}
}

func (s Subject) probe(t testing.TB, api *source.HTTP) (probes.Probe, []probes.FactDoc) {
	t.Helper()
	kind := s.Kind(api)
	p, err := kind.New(s.Decode)
	if err != nil {
		t.Fatal(err)
	}
	return p, kind.Facts
}

// check runs one Check against c and holds its outcome and what c saw against
// the contract.
func (s Subject) check(t testing.TB, c *Checker) (probes.Evidence, error) {
	t.Helper()
	p, docs := s.probe(t, c.Source(t))
	return s.checkAgain(t, c, p, docs)
}

func (s Subject) checkAgain(t testing.TB, c *Checker, p probes.Probe, docs []probes.FactDoc) (probes.Evidence, error) {
	t.Helper()
	before := len(c.Asked())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ev, err := p.Check(ctx)
	if ctx.Err() != nil {
		t.Error("the check used up its whole time")
	}
	Valid(t, docs, ev, err)
	asked := c.Asked()[before:]
	const inVain = 1 // a source asks for a snapshot before it asks for documents
	if len(asked) > s.Requests+inVain+c.Aborted() {
		t.Errorf("%d requests, want at most %d: %v", len(asked), s.Requests+inVain, asked)
	}
	if ev.Cost.HTTPRequests != len(asked) {
		t.Errorf("cost says %d requests, the service saw %d", ev.Cost.HTTPRequests, len(asked))
	}
	for _, a := range asked {
		if a != "GET "+source.PathSnapshot && !slices.Contains(s.Allowed, a) {
			t.Errorf("request %q is not documented", a)
		}
	}
	return ev, err
}

func (s Subject) documented(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	seen := make(map[string]bool)
	for _, d := range s.Kind(nil).Facts {
		if !name.MatchString(d.Name) || seen[d.Name] {
			t.Errorf("fact name %q is not snake_case or not unique", d.Name)
		}
		seen[d.Name] = true
		if !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: help %q is not a sentence", d.Name, d.Help)
		}
	}
}

func (s Subject) healthy(t *testing.T) {
	t.Parallel()
	c := NewChecker(t, s.Docs)
	p, docs := s.probe(t, c.Source(t))
	for range 2 {
		if _, err := s.checkAgain(t, c, p, docs); err != nil {
			t.Errorf("check: %v", err)
		}
	}
	if n := c.MostConns(); n != 1 {
		t.Errorf("%d connections at a time, want 1", n)
	}
}

// snapshot serves the documents in a snapshot: the probe sees the same, and asks
// for none of them.
func (s Subject) snapshot(t *testing.T) {
	t.Parallel()
	c := NewChecker(t, s.Docs)
	single, _ := s.check(t, c)
	shared := NewChecker(t, s.Docs)
	inside := shared.ServeSnapshot(s.Docs)
	ev, err := s.check(t, shared)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, f := range single.Facts {
		if _, ok := Value(ev, f.Name); !ok {
			t.Errorf("%s is known from a document and not from a snapshot: %s", f.Name, Reason(ev, f.Name))
		}
	}
	for _, a := range shared.Asked() {
		if slices.Contains(inside, a) {
			t.Errorf("%s although the snapshot holds it", a)
		}
	}
}

func (s Subject) without(t *testing.T) {
	p, docs := s.probe(t, nil)
	ev, err := p.Check(t.Context())
	Valid(t, docs, ev, err)
	for _, f := range ev.Facts {
		if !slices.Contains(s.Knows, f.Name) {
			t.Errorf("fact %s = %v is known without a service", f.Name, f.Value)
		}
	}
	if len(s.Knows) == 0 && (err == nil || !strings.Contains(err.Error(), "configured")) {
		t.Errorf("got error %v, want one that says what to configure", err)
	}
}

func (s Subject) broken(t *testing.T) {
	t.Parallel()
	for path, doc := range s.Docs {
		for name, answer := range answers(doc) {
			t.Run(strings.TrimPrefix(path, "/debug/diagnose/")+" "+name, func(t *testing.T) {
				t.Parallel()
				c := NewChecker(t, s.Docs)
				c.Serve(path, answer.serve)
				ev, _ := s.check(t, c)
				list := make([]string, 0, len(ev.Missing))
				for _, m := range ev.Missing {
					list = append(list, m.Reason)
				}
				reasons := strings.Join(list, "\n")
				if !strings.Contains(reasons, answer.want) {
					t.Errorf("no reason says %q:\n%s", answer.want, reasons)
				}
				if strings.Contains(reasons, "hunter2") {
					t.Errorf("a reason holds a secret: %s", reasons)
				}
			})
		}
	}
}

// numbers breaks one number of every document at a time.
func (s Subject) numbers(t *testing.T) {
	t.Parallel()
	values := []string{`"x"`, "-1", "null", "1e999", "{}", "[]", "true", "0", "123456789012345678901234567890"}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for path, doc := range s.Docs {
		for i := range number.FindAllString(doc, -1) {
			value := values[i%len(values)]
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				c := NewChecker(t, s.Docs)
				c.Serve(path, JSON(hostile(doc, func(n int) string {
					if n == i {
						return value
					}
					return ""
				})))
				_, _ = s.check(t, c)
			})
		}
	}
	wg.Wait()
}

func (s Subject) hanging(t *testing.T) {
	t.Parallel()
	for path := range s.Docs {
		t.Run(strings.TrimPrefix(path, "/debug/diagnose/"), func(t *testing.T) {
			t.Parallel()
			c := NewChecker(t, s.Docs)
			c.Serve(path, hang)
			p, docs := s.probe(t, c.SourceWithin(t, 300*time.Millisecond))
			start := time.Now()
			ev, err := p.Check(t.Context())
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			Valid(t, docs, ev, err)
			if !strings.Contains(fmt.Sprint(ev.Missing), "no answer within") {
				t.Errorf("no reason says that there was no answer: %v", ev.Missing)
			}
		})
	}
}

func (s Subject) refused(t *testing.T) {
	t.Parallel()
	c := NewChecker(t, s.Docs)
	p, docs := s.probe(t, c.Source(t))
	c.Close()
	start := time.Now()
	ev, err := p.Check(t.Context())
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	Valid(t, docs, ev, err)
	if !strings.Contains(fmt.Sprint(ev.Missing), "connection refused") {
		t.Errorf("no reason says that the connection was refused: %v", ev.Missing)
	}
	if ev.Cost.HTTPRequests != 0 {
		t.Errorf("cost says %d requests, none got through", ev.Cost.HTTPRequests)
	}
}

func (s Subject) cancelled(t *testing.T) {
	t.Parallel()
	c := NewChecker(t, s.Docs)
	for path := range s.Docs {
		c.Serve(path, hang)
	}
	p, docs := s.probe(t, c.SourceWithin(t, 20*time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	ev, err := p.Check(ctx)
	if took := time.Since(start); took > time.Second {
		t.Errorf("returned %v after a cancel at 50ms", took)
	}
	Valid(t, docs, ev, err)

	// Nor may it begin when the time is over already.
	ev, err = p.Check(ctx)
	Valid(t, docs, ev, err)
	if ev.Cost != (probes.Cost{}) {
		t.Errorf("a check without time cost %+v", ev.Cost)
	}
}
