package local_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// TestCachePenetration sends checks of names that nobody has past the filter: each reaches a shard, each time.
func TestCachePenetration(t *testing.T) {
	t.Parallel()
	p := &patient{
		T: t, client: http.Client{Timeout: time.Minute},
		Path: startPath(t, local.Options{Shards: 2, Names: 100, Faults: true}),
	}
	var free []string // and the filter knows it
	for i := 0; len(free) < 20; i++ {
		if n := fmt.Sprintf("nobody%d", i); !p.Service.Filter.Test(n) {
			free = append(free, n)
		}
	}
	missing := func() uint64 {
		t.Helper()
		var doc struct{ Lookups struct{ Missing uint64 } }
		p.call(http.MethodGet, "/debug/diagnose/latency", "", http.StatusOK, &doc)
		return doc.Lookups.Missing
	}
	check := func(by string) {
		t.Helper()
		for _, n := range free {
			var answer struct {
				Available  bool
				AnsweredBy string `json:"answered_by"`
			}
			p.call(http.MethodGet, "/v1/check?name="+n, "", http.StatusOK, &answer)
			if !answer.Available || answer.AnsweredBy != by {
				t.Errorf("check of %s = %+v, want available by %s", n, answer, by)
			}
		}
	}
	check("bloom")
	if got := missing(); got != 0 {
		t.Errorf("%d look-ups of names that are not there, want none", got)
	}
	p.fault(http.MethodPost, "cache-penetration")
	check("shard")
	check("shard")
	if got := missing(); got != 40 {
		t.Errorf("%d look-ups of names that are not there, want each of 20 twice", got)
	}
	w := p.read()
	for _, flag := range []string{"check_skips_filter", "free_names_uncached"} {
		if got := w.changed(flag); got != "flag false to true" {
			t.Errorf("change of %s %q", flag, got)
		}
	}
	p.fault(http.MethodDelete, "cache-penetration")
	check("bloom")
	if got := missing(); got != 40 {
		t.Errorf("%d look-ups of names that are not there, want 40 as before", got)
	}
}

// TestStaleNegatives registers names of which no cache is told: Redis goes on to say "free" until the fault is mended.
func TestStaleNegatives(t *testing.T) {
	t.Parallel()
	p := &patient{
		T: t, client: http.Client{Timeout: time.Minute},
		Path: startPath(t, local.Options{Shards: 2, Names: 100, Faults: true}),
	}
	free := func() int {
		t.Helper()
		var doc struct {
			Redis struct {
				Free  int
				Error string
			}
		}
		p.call(http.MethodGet, "/debug/diagnose/consistency/sample?n=500&min_age=0s", "", http.StatusOK, &doc)
		if doc.Redis.Error != "" {
			return -1 // a machine that stalls
		}
		return doc.Redis.Free
	}
	registered := 0
	register := func(n int) {
		t.Helper()
		for range n {
			registered++
			p.registers(fmt.Sprintf("negative%d", registered), http.StatusCreated)
		}
	}
	register(5)
	p.eventually("Redis calls no owned name free", func(wire) bool { return free() == 0 })
	p.fault(http.MethodPost, "stale-negatives")
	register(7)
	w := p.eventually("Redis calls free what was registered since", func(wire) bool { return free() == 7 })
	if got := w.changed("register_without_invalidation"); got != "flag false to true" {
		t.Errorf("change %q", got)
	}
	p.fault(http.MethodDelete, "stale-negatives")
	register(5)
	p.eventually("Redis calls no owned name free any more", func(wire) bool { return free() == 0 })
}
