package bloom

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"math"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

const (
	// canaryPrefix begins names that registration refuses, so that they can
	// never exist.
	canaryPrefix = "zz0canary"
	// tolerance is by how much the rate may exceed its target: filters in the
	// field are rebuilt beyond ±25 % (scylladb/scylladb#19190).
	tolerance = 1.25
	// minDistinct is the share of canaries that must stay different in
	// canonical form. Below it the test measures the normalisation and not the
	// filter (bits-and-blooms/bloom#49).
	minDistinct = 0.99
)

// sizes are the sample sizes: 1,500 detect twice a target of 1 % with a power
// of 90 %, 20,000 detect 1.25 times of it.
var sizes = [...]int{1500, 5000, 20000}

// canaryFacts are the facts that rest on the canaries.
var canaryFacts = []string{
	"fp_rate", "fp_rate_low", "fp_rate_high", "fp_rate_over_target",
	"canaries_tested", "canaries_distinct_ratio", "canaries_refused_ratio",
}

// tally adds up what became of canaries.
type tally struct {
	tested, distinct, invalid, maybe int
	generation                       probes.Number
}

// canaries records the false-positive rate for names that cannot exist. The
// sample grows as long as it leaves undecided whether the rate is beyond the
// tolerated one.
func (p *probe) canaries(ctx context.Context, rec *probes.Recorder, target probes.Number) error {
	sum, err := p.test(ctx, rec, sizes[0])
	if err != nil {
		rec.Miss(err.Error(), canaryFacts...)
		return err
	}
	limit, ok := target.Times(probes.Known(tolerance)).Get()
	for ok && sum.usable() == "" {
		size := extend(sum.maybe, sum.tested, limit)
		if size == 0 {
			break
		}
		more, err := p.test(ctx, rec, size)
		if err != nil || more.generation != sum.generation {
			// What was counted before stands on its own: the second sample
			// failed, or is of a filter that has replaced the first.
			break
		}
		sum.tested += more.tested
		sum.distinct += more.distinct
		sum.invalid += more.invalid
		sum.maybe += more.maybe
	}
	sum.record(rec, target)
	return nil
}

// test lets the service test n fresh canaries.
func (p *probe) test(ctx context.Context, rec *probes.Recorder, n int) (tally, error) {
	names := canaryNames(n)
	var doc source.BloomTest
	err := p.api.Post(ctx, rec.Cost(), source.PathBloomTest, source.BloomTestRequest{Names: names}, &doc)
	if err != nil {
		return tally{}, err
	}
	return count(doc, n)
}

// count checks an answer about n canaries and adds it up.
func count(doc source.BloomTest, n int) (tally, error) {
	sum := doc.Tested.Plus(doc.Invalid)
	distinct := doc.Distinct
	for _, number := range []probes.Number{sum, distinct} {
		if _, ok := number.Get(); !ok {
			return tally{}, fmt.Errorf("POST %s: %s", source.PathBloomTest, number.Why())
		}
	}
	if doc.Maybe == nil {
		return tally{}, fmt.Errorf("POST %s: maybe is left out", source.PathBloomTest)
	}
	seen := make(map[int]bool, len(doc.Maybe))
	for _, i := range doc.Maybe {
		if i < 0 || i >= n || seen[i] {
			return tally{}, fmt.Errorf("POST %s: maybe does not hold different indexes of the names sent", source.PathBloomTest)
		}
		seen[i] = true
	}
	t := tally{
		tested: int(doc.Tested.Or(0)), invalid: int(doc.Invalid.Or(0)), distinct: int(distinct.Or(0)),
		maybe: len(seen), generation: doc.Generation,
	}
	if sum.Or(0) != float64(n) || t.maybe > t.tested || t.distinct > n {
		return tally{}, fmt.Errorf("POST %s: the answer does not add up to the %d names sent", source.PathBloomTest, n)
	}
	return t, nil
}

// usable says why no rate can be read off the canaries; empty when it can.
func (t tally) usable() string {
	switch {
	case t.invalid > 0:
		return fmt.Sprintf("the service refuses %d of the canary names: their namespace is not reserved as the contract says", t.invalid)
	case t.tested == 0:
		return "no canary was tested"
	case float64(t.distinct) < minDistinct*float64(t.tested):
		return fmt.Sprintf("only %d of %d canary names differ in canonical form: the normalisation maps names onto each other", t.distinct, t.tested)
	}
	return ""
}

func (t tally) record(rec *probes.Recorder, target probes.Number) {
	tested := probes.Known(float64(t.tested))
	rec.Set("canaries_tested", tested)
	rec.Set("canaries_distinct_ratio", probes.Known(float64(t.distinct)).Over(tested, "no canary was tested"))
	rec.Set("canaries_refused_ratio", probes.Known(float64(t.invalid)/float64(max(1, t.tested+t.invalid))))
	if why := t.usable(); why != "" {
		rec.Miss(why, canaryFacts...)
		return
	}
	rate := probes.Known(float64(t.maybe)).Over(tested, "no canary was tested")
	iv := probes.Wilson(t.maybe, t.tested)
	rec.SetSampled("fp_rate", rate, iv)
	rec.Set("fp_rate_low", probes.Known(iv.Low))
	rec.Set("fp_rate_high", probes.Known(iv.High))
	over := rate.Over(target, "target_rate is 0")
	if goal, ok := target.Get(); ok {
		rec.SetSampled("fp_rate_over_target", over, probes.Interval{Low: iv.Low / goal, High: iv.High / goal})
		return
	}
	rec.Set("fp_rate_over_target", over)
}

// extend returns how many more canaries to test, 0 when the sample is enough.
// It is enough when the interval lies on one side of limit. If not, the
// smallest size is chosen that would be enough even if the true rate were half
// a standard error closer to the limit than the one seen, so that in general
// one more request will do.
func extend(hits, n int, limit float64) int {
	if !straddles(probes.Wilson(hits, n), limit) {
		return 0
	}
	rate := float64(hits) / float64(n)
	deviation := math.Sqrt(max(rate, 1/float64(n))*(1-rate)/float64(n)) / 2
	closer := min(rate+deviation, limit)
	if rate > limit {
		closer = max(rate-deviation, limit)
	}
	for _, size := range sizes {
		if size > n && !straddles(probes.Wilson(int(math.Round(closer*float64(size))), size), limit) {
			return size - n
		}
	}
	return max(0, sizes[len(sizes)-1]-n)
}

func straddles(iv probes.Interval, limit float64) bool { return iv.Low <= limit && limit <= iv.High }

// canaryNames returns n different names that cannot exist. They are fresh for
// every run: a fixed list would give the same answer each time.
func canaryNames(n int) []string {
	raw := make([]byte, 8*n)
	_, _ = rand.Read(raw) // never fails: see crypto/rand
	names := make([]string, 0, n)
	for i := range n {
		// 8 bytes are 13 characters; two equal names among 20,000 have a
		// probability of 1e-11, and would show in the answer's distinct.
		tail := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw[8*i : 8*i+8])
		names = append(names, canaryPrefix+strings.ToLower(tail))
	}
	return names
}
