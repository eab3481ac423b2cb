package probes_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
)

// every is the time between two samples in these tests.
const every = 10 * time.Second

// past records the values of a fact, of which NaN are gaps, and returns the onset
// of the last one.
func past(values []float64) (onset *probes.Onset, start time.Time) {
	h := probes.NewHistory(360)
	start = time.Now()
	last := len(values) - 1
	for i, v := range values[:last] {
		sample := map[string]float64{"y": 1}
		if !math.IsNaN(v) {
			sample["x"] = v
		}
		h.Record(start.Add(time.Duration(i)*every), sample)
	}
	return h.Onset("x", values[last], start.Add(time.Duration(last)*every)), start
}

// level is n samples around v, by at most a tenth of it.
func level(n int, v float64) []float64 {
	random := rand.New(rand.NewPCG(uint64(n), math.Float64bits(v)))
	out := make([]float64, n)
	for i := range out {
		out[i] = v * (0.9 + 0.2*random.Float64())
	}
	return out
}

func join(parts ...[]float64) (all []float64) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestOnset(t *testing.T) {
	t.Parallel()
	gap := math.NaN()
	ramp := make([]float64, 300)
	for i := range ramp {
		ramp[i] = float64(i)
	}
	for name, tt := range map[string]struct {
		values        []float64
		at            int // sample of the onset, -1 for none
		before, after float64
	}{
		"never moved":              {level(300, 5), -1, 0, 0},
		"constant":                 {[]float64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, -1, 0, 0},
		"nothing remembered":       {[]float64{5}, -1, 0, 0},
		"remembered too short":     {[]float64{0, 0, 0, 9, 9, 9}, -1, 0, 0},
		"rose a minute ago":        {join(level(200, 0.02), level(6, 0.91)), 200, 0.02, 0.91},
		"rose just now":            {join(level(200, 0.02), level(2, 0.91)), 200, 0.02, 0.91},
		"fell":                     {join(level(50, 100), level(20, 3)), 50, 100, 3},
		"from nothing":             {join(make([]float64, 30), level(5, 7)), 30, 0, 7},
		"to nothing":               {join(level(30, 7), make([]float64, 5)), 30, 7, 0},
		"a single outlier":         {join(level(30, 7), []float64{70}), -1, 0, 0},
		"a drift":                  {ramp, -1, 0, 0},
		"too little":               {join(level(100, 1000), level(30, 1020)), -1, 0, 0},
		"gaps are no zeros":        {join(level(30, 7), []float64{gap, gap, gap, gap, gap, gap}, level(10, 7)), -1, 0, 0},
		"over a gap":               {join(level(30, 7), []float64{gap, gap, gap}, level(10, 70)), 33, 7, 70},
		"an earlier one is over":   {join(level(100, 1), level(30, 10), level(100, 1), level(6, 10)), 230, 1, 10},
		"over and well again":      {join(level(100, 1), level(30, 10), level(60, 1)), 130, 10, 1},
		"it rose in steps":         {join(level(100, 1), []float64{4, 7, 10}, level(30, 13)), 100, 1, 13},
		"a lesser change after it": {join(level(100, 1), level(60, 100), level(60, 125)), 100, 1, 100},
		"large numbers":            {join(level(100, 1e12), level(30, 5e12)), 100, 1e12, 5e12},
	} {
		got, start := past(tt.values)
		if tt.at < 0 {
			if got != nil {
				t.Errorf("%s: moved at sample %v from %v to %v", name, got.At.Sub(start)/every, got.Before, got.After)
			}
			continue
		}
		if got == nil {
			t.Errorf("%s: did not move, want sample %d", name, tt.at)
			continue
		}
		if at := got.At.Sub(start.Round(0)); at < time.Duration(tt.at)*every-time.Second || at > time.Duration(tt.at)*every+time.Second {
			t.Errorf("%s: moved at sample %v, want %d", name, at.Seconds()/every.Seconds(), tt.at)
		}
		if math.Abs(got.Before-tt.before) > 0.3*tt.before || math.Abs(got.After-tt.after) > 0.3*tt.after {
			t.Errorf("%s: from %v to %v, want %v to %v", name, got.Before, got.After, tt.before, tt.after)
		}
	}
}

// TestNoiseIsNoOnset: with four deviations there is hardly a false alarm among
// thousands of facts that only fluctuate.
func TestNoiseIsNoOnset(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	moved := 0
	for range 3000 {
		values := make([]float64, 360)
		for i := range values {
			values[i] = 5 + random.NormFloat64()
		}
		if onset, _ := past(values); onset != nil {
			moved++
		}
	}
	if moved > 3 {
		t.Errorf("%d of 3000 facts that only fluctuate moved", moved)
	}
}

func TestHistoryForgets(t *testing.T) {
	t.Parallel()
	h := probes.NewHistory(20)
	start := time.Now()
	at := func(i int) time.Time { return start.Add(time.Duration(i) * every) }
	for i := range 1000 {
		v := 1.0
		if i >= 900 {
			v = 9
		}
		h.Record(at(i), map[string]float64{"x": v})
	}
	if samples, facts := h.Len(); samples != 20 || facts != 1 {
		t.Errorf("%d samples of %d facts, want 20 of 1", samples, facts)
	}
	if onset := h.Onset("x", 9, at(1000)); onset != nil {
		t.Errorf("what is older than the history is known: %+v", onset)
	}
	if onset := h.Onset("never seen", 9, at(1000)); onset != nil {
		t.Errorf("a fact that was never recorded moved: %+v", onset)
	}
}

func FuzzOnset(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 9, 9, 9})
	special := []float64{0, 1, -1, 1e308, -1e308, 5e-324, math.NaN(), 3, 1e17}
	f.Fuzz(func(t *testing.T, data []byte) {
		values := make([]float64, 0, len(data)+1)
		for _, b := range data {
			values = append(values, special[int(b)%len(special)])
		}
		onset, _ := past(append(values[:min(len(values), 500)], 7))
		if onset != nil && (math.IsNaN(onset.Before) || math.IsNaN(onset.After) || math.IsInf(onset.Before, 0) || math.IsInf(onset.After, 0)) {
			t.Errorf("from %v to %v", onset.Before, onset.After)
		}
	})
}
