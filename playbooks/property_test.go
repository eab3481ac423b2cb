package playbooks_test

import (
	"bytes"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// TestOrderDoesNotMatter judges a thousand times with the measurements
// shuffled, over all cases: the bytes must stay the same.
func TestOrderDoesNotMatter(t *testing.T) {
	p := shipped(t)[0]
	dirs := cases(t, p.Name)
	random := rand.New(rand.NewPCG(1, 2))
	for name, dir := range dirs {
		ms := measurements(t, dir)
		want := encode(t, playbooks.Judge(p, ms))
		for range 1000/len(dirs) + 1 {
			random.Shuffle(len(ms), func(i, j int) { ms[i], ms[j] = ms[j], ms[i] })
			if got := encode(t, playbooks.Judge(p, ms)); !bytes.Equal(got, want) {
				t.Fatalf("%s: order changes the report:\n%s", name, firstDifference(string(got), string(want)))
			}
		}
	}
}

// TestBlindnessNeverHeals takes away each measurement of every case and, of the
// facts, each from a fortieth of the cases: what was not healthy must not become
// so, and without a whole measurement nothing may.
func TestBlindnessNeverHeals(t *testing.T) {
	p := shipped(t)[0]
	byName := cases(t, p.Name)
	for turn, name := range slices.Sorted(maps.Keys(byName)) {
		ms := measurements(t, byName[name])
		before := playbooks.Judge(p, ms).Verdict
		for i := range ms {
			less := slices.Delete(slices.Clone(ms), i, i+1)
			if got := playbooks.Judge(p, less).Verdict; got == playbooks.Healthy {
				t.Errorf("%s without %s: healthy, was %s", name, ms[i].Step, before)
			}
			failed := slices.Clone(ms)
			failed[i] = playbooks.Measurement{Step: ms[i].Step, Err: "refused"}
			if got := playbooks.Judge(p, failed).Verdict; got == playbooks.Healthy {
				t.Errorf("%s with %s failed: healthy, was %s", name, ms[i].Step, before)
			}
			if before == playbooks.Healthy {
				continue
			}
			for j, f := range ms[i].Evidence.Facts {
				if (turn+j)%40 != 0 {
					continue
				}
				fewer := slices.Clone(ms)
				fewer[i].Evidence.Facts = slices.Delete(slices.Clone(ms[i].Evidence.Facts), j, j+1)
				if got := playbooks.Judge(p, fewer).Verdict; got == playbooks.Healthy {
					t.Errorf("%s without %s.%s: healthy, was %s", name, ms[i].Step, f.Name, before)
				}
			}
		}
	}
}

// TestLessEvidenceNeverMakesSure takes facts and steps away from every case, at
// random: what is then found at confidence high was found before, and nothing
// that was not healthy becomes so.
func TestLessEvidenceNeverMakesSure(t *testing.T) {
	p := shipped(t)[0]
	random := rand.New(rand.NewPCG(3, 4))
	all := cases(t, p.Name)
	for _, name := range slices.Sorted(maps.Keys(all)) { // in one order, or what fails cannot be had again
		ms := measurements(t, all[name])
		before := playbooks.Judge(p, ms)
		for range 10 {
			fewer := slices.Clone(ms)
			share := random.Float64()
			for i := range fewer {
				if random.IntN(8) == 0 {
					fewer[i].Err = "timeout"
				}
				fewer[i].Evidence.Facts = slices.DeleteFunc(slices.Clone(ms[i].Evidence.Facts), func(f probes.Fact) bool {
					return random.Float64() < share
				})
			}
			r := playbooks.Judge(p, fewer)
			if r.Verdict == playbooks.Healthy && before.Verdict != playbooks.Healthy {
				t.Errorf("%s: healthy with less evidence, was %s", name, outline(before))
			}
			for _, c := range r.Causes {
				if c.Confidence == playbooks.High && !slices.ContainsFunc(before.Causes, func(b playbooks.Cause) bool { return b.ID == c.ID }) {
					t.Errorf("%s: with less evidence it is surely %s, was %s", name, c.ID, outline(before))
				}
			}
		}
	}
}

// TestNonsenseIsNoCause fills every fact with what cannot be: nothing follows.
func TestNonsenseIsNoCause(t *testing.T) {
	p := shipped(t)[0]
	valid := schema(t)
	random := rand.New(rand.NewPCG(5, 6))
	nonsense := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, -1e-9, -1e308, 1e308, 2e20}
	for range 150 {
		var ms []playbooks.Measurement
		for _, step := range p.Steps {
			m := playbooks.Measurement{Step: step.ID}
			for _, doc := range step.Facts {
				v := nonsense[random.IntN(len(nonsense))]
				switch {
				case random.IntN(8) == 0:
					continue
				case doc.Signed:
					v = nonsense[random.IntN(3)]
				case doc.Unit == probes.Bool:
					v = []float64{0.5, 2, -1, math.NaN()}[random.IntN(4)]
				}
				m.Evidence.Facts = append(m.Evidence.Facts, probes.Fact{Name: doc.Name, Value: v})
			}
			ms = append(ms, m)
		}
		r := playbooks.Judge(p, ms)
		if err := valid(encode(t, r)); err != nil {
			t.Fatalf("report does not fit the schema: %v", err)
		}
		if len(r.Causes) > 0 || r.Verdict != playbooks.Inconclusive {
			t.Fatalf("nonsense is judged: %s", outline(r))
		}
	}
}

// TestImpossibleValues: what cannot be is missing, with the reason, and zero is
// no such thing.
func TestImpossibleValues(t *testing.T) {
	c := smallCatalog()
	k := kind("x y z", check(nothing))
	k.Facts[2].Unit = probes.Bool
	c["a"] = k
	p := load(t, c, small)
	f := func(fact string, v float64, want string) {
		t.Helper()
		got := ""
		for _, m := range playbooks.Judge(p, []playbooks.Measurement{saw("a", fact, v)}).Findings[0].Missing {
			got = m.Reason
		}
		if got != want {
			t.Errorf("%s = %v: got %q, want %q", fact, v, got, want)
		}
	}
	f("x", -5, "")
	f("y", -5, "impossible: -5")
	f("y", math.Copysign(0, -1), "")
	f("y", 1e20, "")
	f("y", 3e20, "impossible: 3e+20")
	f("x", -3e20, "impossible: -3e+20")
	f("z", 0, "")
	f("z", 1, "")
	f("z", 0.5, "impossible: 0.5")
	f("z", 2, "impossible: 2")
	f("y", math.Inf(-1), "not a finite number: -Inf")
}
