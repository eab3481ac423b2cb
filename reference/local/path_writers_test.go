package local_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/local"
)

// verified is how existing names fare in the filter, as the contract tells it.
type verified struct {
	Sampled, Missing int
	Latest           struct{ Sampled, Missing int }
	Groups           []struct {
		By, Group        string
		Sampled, Missing int
		KnownAfter       int `json:"known_after"`
	}
}

// group returns the counts of a group, 0 of one that is not told of.
func (v verified) group(by, group string) (sampled, missing int) {
	for _, g := range v.Groups {
		if g.By == by && g.Group == group {
			return g.Sampled, g.Missing
		}
	}
	return 0, 0
}

// TestWritersOfTheFilter lets the writers of the filter make each of their mistakes, sees it in the names that exist, and
// sees it gone.
func TestWritersOfTheFilter(t *testing.T) {
	t.Parallel()
	p := &patient{
		T: t, client: http.Client{Timeout: time.Minute},
		Path: startPath(t, local.Options{Shards: 2, Names: 500, Faults: true}),
	}
	verify := func() (v verified) {
		t.Helper()
		p.call(http.MethodGet, "/debug/diagnose/bloom/verify?n=500&min_age=0s", "", http.StatusOK, &v)
		return v
	}
	count, punctuated := 0, 0
	register := func(format string, n int) {
		t.Helper()
		for range n {
			count++
			if _, err := p.Service.Register(t.Context(), fmt.Sprintf(format, count)); err != nil {
				t.Fatal(err)
			}
		}
	}
	register("plain%d", 40)
	if v := verify(); v.Missing+v.Latest.Missing != 0 || v.Latest.Sampled != 40 {
		t.Fatalf("well: %+v", v)
	}
	for _, tt := range []struct {
		fault string
		check func(v verified, lost uint64) bool
	}{
		{"filter-other-spelling", func(v verified, lost uint64) bool {
			return v.Latest.Missing == 40 && lost == 0
		}},
		{"filter-other-class", func(v verified, lost uint64) bool {
			sampled, missing := v.group("characters", "punctuation")
			_, others := v.group("characters", "digits")
			return sampled == punctuated && missing == 20 && others == 0 && lost == 0
		}},
		{"filter-drops-adds", func(v verified, lost uint64) bool { return v.Latest.Missing == 40 && lost == 40 }},
		{"filter-tears-adds", func(v verified, lost uint64) bool { return v.Latest.Missing > 0 && v.Latest.Missing < 20 && lost == 0 }},
	} {
		p.fault(http.MethodPost, tt.fault)
		before := p.read().Bloom
		register("more%d", 20)
		register("with-mark%d", 20)
		punctuated += 20
		after := p.read().Bloom
		v := verify()
		lost := after.Registrations - before.Registrations - (after.AddsBySource["register"] - before.AddsBySource["register"])
		if !tt.check(v, lost) {
			t.Errorf("%s: %d adds lost, %+v", tt.fault, lost, v)
		}
		p.fault(http.MethodDelete, tt.fault)
		if v := verify(); v.Missing+v.Latest.Missing != 0 {
			t.Errorf("%s, off: %+v", tt.fault, v)
		}
	}

	p.fault(http.MethodPost, "clipped-names")
	var tested struct{ Tested, Distinct int }
	p.call(http.MethodPost, "/debug/diagnose/bloom/test", `{"names":["zz0canaryabc","zz0canaryabd","zz0canaryb"]}`, http.StatusOK, &tested)
	if tested.Tested != 3 || tested.Distinct != 2 {
		t.Errorf("clipped-names: %+v, want 3 names of which two become one", tested)
	}
	p.fault(http.MethodDelete, "clipped-names")
}
