package probes_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/regpath/diagnose/probes"
)

func TestNumberCarriesTheUnknown(t *testing.T) {
	t.Parallel()
	two, none := probes.Known(2), probes.Unknown("x is left out")
	for name, n := range map[string]probes.Number{
		"plus": two.Plus(none), "minus": none.Minus(two), "times": two.Times(none), "over": two.Over(none, ""), "under": none.Over(two, ""),
		"if": none.If(false, "other"), "at least": none.AtLeast(0, "other"), "clamp": none.Clamp(0, 1), "higher": two.Higher(none),
		"over zero": none.Over(probes.Known(0), "empty"),
	} {
		if _, ok := n.Get(); ok || n.Why() != "x is left out" {
			t.Errorf("%s: got %v because %q, want unknown for the first reason", name, n, n.Why())
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, ok := probes.Known(v).Get(); ok {
			t.Errorf("%v counts as known", v)
		}
	}
	huge := probes.Known(math.MaxFloat64)
	if _, ok := huge.Times(huge).Get(); ok {
		t.Error("an overflow counts as known")
	}
	var zero probes.Number
	if _, ok := zero.Get(); ok || zero.Why() == "" {
		t.Error("the zero Number is known, or does not say why not")
	}
}

func TestNumberArithmetic(t *testing.T) {
	t.Parallel()
	six, four, zero := probes.Known(6), probes.Known(4), probes.Known(0)
	for name, tt := range map[string]struct {
		got  probes.Number
		want float64
	}{
		"plus": {six.Plus(four), 10}, "minus": {four.Minus(six), -2}, "times": {six.Times(four), 24}, "over": {six.Over(four, ""), 1.5},
		"zero over": {zero.Over(six, ""), 0}, "clamp": {six.Clamp(0, 5), 5}, "if": {six.If(true, "no"), 6},
		"lower":  {six.Lower(four), 4},
		"higher": {six.Higher(four), 6}, "or": {probes.Known(probes.Unknown("x").Or(7)), 7},
	} {
		if v, ok := tt.got.Get(); !ok || v != tt.want {
			t.Errorf("%s: got %v, %v, want %v", name, v, ok, tt.want)
		}
	}
	if why := six.Over(zero, "no requests").Why(); why != "no requests" {
		t.Errorf("division by 0: got %q", why)
	}
	for _, n := range []probes.Number{six.Lower(probes.Unknown("x")), probes.Unknown("x").Lower(six), six.Higher(probes.Unknown("x")), probes.Unknown("x").Higher(six)} {
		if n.Why() != "x" {
			t.Errorf("the lower or higher of one: got %v", n)
		}
	}
	if why := six.AtLeast(7, "too few").Why(); why != "too few" {
		t.Errorf("below the least: got %q", why)
	}
	if n := six.MootIf(false, "no"); n != six {
		t.Errorf("not moot: got %v because %q", n, n.Why())
	}
	if n := probes.Absent("not offered").After("shard1: ").Plus(six); n != probes.Absent("shard1: not offered") {
		t.Errorf("absent: got %v because %q", n, n.Why())
	}
	for _, n := range []probes.Number{six, probes.Unknown("x")} {
		n = n.MootIf(true, "nobody waited")
		if _, ok := n.Get(); ok || n.Why() != "nobody waited" {
			t.Errorf("moot: got %v because %q", n, n.Why())
		}
	}
}

func TestNumberFromJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"n":5}`: "", `{"n":5.5e3}`: "", `{"n":0}`: "", `{}`: "n is left out", `{"n":null}`: "n is left out", `{"n":"5"}`: "n is not a number",
		`{"n":-1}`: "n is negative", `{"n":1e999}`: "n is out of range", `{"n":[1]}`: "n is not a number", `{"n":true}`: "n is not a number",
		`{"n":{}}`: "n is not a number", `{"n":"NaN"}`: "n is not a number", `{"n":1,"n":null}`: "n is left out",
	} {
		var doc struct {
			N probes.Number `json:"n"`
		}
		if err := json.Unmarshal([]byte(in), &doc); err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if got := doc.N.Named("n").Why(); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
	if _, ok := probes.ParseNumber("NaN").Get(); ok {
		t.Error("NaN counts as a number")
	}
}

// Newcombe, "Two-sided confidence intervals for the single proportion",
// Statistics in Medicine 17 (1998), table I, method 3; the last rows are the
// upper bounds for no hits at all, z²/(n+z²).
func TestWilson(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		hits, n   int
		low, high float64
	}{
		{81, 263, 0.2553, 0.3662},
		{15, 148, 0.0624, 0.1605},
		{0, 20, 0, 0.1611},
		{1, 29, 0.0061, 0.1718},
		{29, 29, 0.8830, 1},
		{100, 10000, 0.0082, 0.0122},
		{20, 1000, 0.0130, 0.0307},
		{5, 500, 0.0043, 0.0232},
		{0, 300, 0, 0.0126},
		{0, 10000, 0, 0.00038},
	} {
		iv := probes.Wilson(tt.hits, tt.n)
		if math.Abs(iv.Low-tt.low) > 0.00006 || math.Abs(iv.High-tt.high) > 0.00006 {
			t.Errorf("%d of %d: got %.5f to %.5f, want %.5f to %.5f", tt.hits, tt.n, iv.Low, iv.High, tt.low, tt.high)
		}
	}
	if got := probes.Wilson(0, 0); got != (probes.Interval{Low: 0, High: 1}) {
		t.Errorf("no trials: got %v", got)
	}
}

func FuzzWilson(f *testing.F) {
	f.Add(1, 2)
	f.Fuzz(func(t *testing.T, hits, n int) {
		if n <= 0 || hits < 0 || hits > n {
			return
		}
		iv, p := probes.Wilson(hits, n), float64(hits)/float64(n)
		if !(iv.Low >= 0 && iv.Low <= p && p <= iv.High && iv.High <= 1) {
			t.Errorf("%d of %d: %v does not hold %v within [0, 1]", hits, n, iv, p)
		}
	})
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{math.MaxFloat64, math.MaxFloat64}, math.MaxFloat64}} {
		if got, ok := probes.Median(tt.in).Get(); !ok || got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.in, got, tt.want)
		}
	}
	if _, ok := probes.Median(nil).Get(); ok {
		t.Error("no values have a median")
	}
	in := []float64{2, 1}
	if probes.Median(in); in[0] != 2 {
		t.Error("the argument was sorted")
	}
}
