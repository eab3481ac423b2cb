package playbooks_test

import (
	"bytes"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// small is a playbook that shows one rule of judging at a time.
const small = `
name: small
title: Small
timeout: 1s
steps:
  - id: a
    title: Layer A
    probe: a
    rules:
      - {status: critical, when: a.x > 10, summary: "x is {a.x}"}
      - {status: warning, when: a.y > 10, summary: "y is {a.y}"}
      - {status: ok, summary: "fine[, z {a.z}]"}
  - id: b
    title: Layer B
    probe: b
    rules:
      - {status: ok, when: b.x < 0, summary: asleep}
      - {status: warning, when: b.y > 10, summary: "y is {b.y}"}
      - {status: ok, when: b.x >= 0, summary: awake}
causes:
  - id: deep
    title: Deep
    layer: a
    summary: Deep down.
    source: test
    when: [a.x > 10]
    against: [b.z == 1]
    explains: [shallow]
    actions: [dig]
  - id: shallow
    title: Shallow
    layer: b
    summary: On the surface.
    source: test
    when: [b.y > 10]
    signals:
      - {when: a.y > 10, weight: 3}
      - {when: b.x > 10}
    actions: [skim]
`

func smallCatalog() probes.Catalog {
	k := kind("x y z", check(nothing))
	k.Tables = []string{"rows"}
	return probes.Catalog{"a": k, "b": k}
}

// saw makes measurements: saw("a", "x", 1.0, "y", 2.0).
func saw(step string, facts ...any) playbooks.Measurement {
	m := playbooks.Measurement{Step: step}
	for i := 0; i < len(facts); i += 2 {
		m.Evidence.Facts = append(m.Evidence.Facts, probes.Fact{Name: facts[i].(string), Value: facts[i+1].(float64)})
	}
	return m
}

func TestStatus(t *testing.T) {
	p := load(t, smallCatalog(), small)
	f := func(m playbooks.Measurement, status playbooks.Status, summary, because string) {
		t.Helper()
		r := playbooks.Judge(p, []playbooks.Measurement{m})
		i := slices.IndexFunc(r.Findings, func(f playbooks.Finding) bool { return f.Step == m.Step })
		got := r.Findings[i]
		if got.Status != status || got.Summary != summary || got.Because != because {
			t.Errorf("%+v:\n got %v, %q, %q\nwant %v, %q, %q", m, got.Status, got.Summary, got.Because, status, summary, because)
		}
	}
	f(saw("a", "x", 1.0, "y", 1.0), playbooks.OK, "fine", "")
	f(saw("a", "x", 1.0, "y", 1.0, "z", 1234567.0), playbooks.OK, "fine, z 1,234,567", "")
	f(saw("a", "x", 11.5, "y", 1.0), playbooks.Critical, "x is 11.5", "a.x (11.5) > 10")
	f(saw("a", "x", 11.0), playbooks.Critical, "x is 11", "a.x (11) > 10")
	// An open rule before one that holds: it could only be worse.
	f(saw("a", "y", 11.0), playbooks.Warning, "y is 11", "a.y (11) > 10")
	// Unknown is never ok.
	f(saw("a", "x", 1.0), playbooks.Unknown, "a.y is unknown.", "a.y (unknown) > 10")
	f(saw("a"), playbooks.Unknown, "a.x and a.y are unknown.", "a.x (unknown) > 10")
	f(saw("a", "x", math.NaN(), "y", 1.0), playbooks.Unknown, "a.x is unknown.", "a.x (unknown) > 10")
	f(saw("a", "x", math.Inf(1), "y", 1.0), playbooks.Unknown, "a.x is unknown.", "a.x (unknown) > 10")
	// An open rule before one that holds: it would have been milder.
	f(saw("b", "y", 11.0), playbooks.Unknown, "b.x is unknown.", "b.x (unknown) < 0")
	f(saw("b", "x", 1.0, "y", 1.0), playbooks.OK, "awake", "b.x (1) >= 0")
	f(saw("b", "x", -1.0), playbooks.OK, "asleep", "b.x (-1) < 0")
	f(playbooks.Measurement{Step: "b", Err: "refused"}, playbooks.Unknown, "Could not be measured: refused.", "")
}

func TestCausesAndConfidence(t *testing.T) {
	p := load(t, smallCatalog(), small)
	f := func(want string, ms ...playbooks.Measurement) {
		t.Helper()
		if got := outline(playbooks.Judge(p, ms)); got != want {
			t.Errorf("%+v: got %q, want %q", ms, got, want)
		}
	}
	f("healthy", saw("a", "x", 1.0, "y", 1.0), saw("b", "x", 1.0, "y", 1.0, "z", 0.0))
	f("cause-found deep:high >shallow:high", saw("a", "x", 11.0, "y", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	// "against" unknown: matched, but backed by nothing.
	f("cause-found deep:low", saw("a", "x", 11.0, "y", 1.0), saw("b", "x", 1.0, "y", 1.0))
	f("inconclusive", saw("a", "x", 11.0, "y", 1.0), saw("b", "x", 1.0, "y", 1.0, "z", 1.0))
	// Three of four weights agree and one is unknown: still high.
	f("cause-found shallow:high", saw("a", "x", 1.0, "y", 11.0), saw("b", "y", 11.0, "z", 0.0))
	// Three agree and one disagrees: never high.
	f("cause-found shallow:medium", saw("a", "x", 1.0, "y", 11.0), saw("b", "x", 1.0, "y", 11.0, "z", 0.0))
	f("cause-found shallow:low", saw("a", "x", 1.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	// Deep, which would explain it, is undecided: no root.
	f("inconclusive ?shallow:low", saw("a", "y", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	// Deep is refuted although a.x is unknown.
	f("cause-found shallow:high", saw("a", "y", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 1.0))
	f("inconclusive")
	f("inconclusive", saw("a", "x", 1.0, "y", 1.0))
	f("inconclusive", saw("a", "x", 1.0, "y", 1.0), saw("b", "x", 1.0, "y", 1.0, "z", 0.0), saw("b", "x", 1.0, "y", 1.0, "z", 0.0))
}

// TestEffectUnderACondition: an effect that is known not to come is a root of its
// own, and in doubt of nobody; one of which that is not known follows.
func TestEffectUnderACondition(t *testing.T) {
	p := load(t, smallCatalog(), strings.Replace(small, "explains: [shallow]", "explains: [{cause: shallow, when: a.z > 10}]", 1))
	f := func(want string, ms ...playbooks.Measurement) {
		t.Helper()
		if got := outline(playbooks.Judge(p, ms)); got != want {
			t.Errorf("%+v: got %q, want %q", ms, got, want)
		}
	}
	f("cause-found deep:high >shallow:high", saw("a", "x", 11.0, "y", 11.0, "z", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	f("cause-found shallow:high deep:high", saw("a", "x", 11.0, "y", 11.0, "z", 1.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	f("cause-found deep:high >shallow:high", saw("a", "x", 11.0, "y", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	f("inconclusive ?shallow:low", saw("a", "y", 11.0, "z", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	f("cause-found shallow:high", saw("a", "y", 11.0, "z", 1.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))

	for bad, want := range map[string]string{
		"{cause: shalow, when: a.z > 10}":   `causes[0].explains[0].cause: unknown cause "shalow"; expected one of deep, shallow; did you mean "shallow"?`,
		"{when: a.z > 10}":                  "causes[0].explains[0].cause: missing",
		"shallow, shallow":                  `causes[0].explains[1]: duplicate cause "shallow"`,
		"{cause: shallow}":                  "causes[0].explains[0].when: missing",
		"{cause: shallow, when: a.zz > 10}": "causes[0].explains[0].when: ",
		"[shallow]":                         "causes[0].explains[0]: ",
	} {
		_, err := playbooks.Load(smallCatalog(), playbooks.File{Name: "one.yaml", Data: []byte(strings.Replace(small, "explains: [shallow]", "explains: ["+bad+"]", 1))})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", bad, err, want)
		}
	}
}

// TestPaleCauseExplainsNothingSurer: what was measured makes deep unlikely, which
// is not the same as what was not.
func TestPaleCauseExplainsNothingSurer(t *testing.T) {
	p := load(t, smallCatalog(), strings.Replace(small, "[b.z == 1]\n", "[b.z == 1]\n    signals: [{when: a.z > 10}]\n", 1))
	f := func(want string, ms ...playbooks.Measurement) {
		t.Helper()
		r := playbooks.Judge(p, ms)
		if got := outline(r); got != want {
			t.Errorf("%+v: got %q, want %q", ms, got, want)
		}
		for _, c := range r.Causes {
			if explained := strings.Contains(want, ">"); c.ID == "deep" && (len(c.Explains) == 1) != explained {
				t.Errorf("%s: deep explains %q", want, c.Explains)
			}
		}
	}
	f("cause-found deep:high >shallow:high", saw("a", "x", 11.0, "y", 11.0, "z", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	f("cause-found shallow:high deep:low", saw("a", "x", 11.0, "y", 11.0, "z", 1.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0))
	f("cause-found deep:low >shallow:low", saw("a", "x", 11.0, "y", 1.0, "z", 1.0), saw("b", "x", 1.0, "y", 11.0, "z", 0.0))
	f("cause-found deep:low >shallow:high", saw("a", "x", 11.0, "y", 11.0), saw("b", "x", 11.0, "y", 11.0))
}

func TestGapsAndRuledOut(t *testing.T) {
	p := load(t, smallCatalog(), small)
	m := saw("a", "x", 1.0, "y", math.NaN(), "x", 2.0)
	m.Evidence.Missing = []probes.Missing{{Facts: []string{"z"}, Reason: "404"}, {Facts: []string{"z"}, Reason: "404"}}
	r := playbooks.Judge(p, []playbooks.Measurement{saw("zzz"), m, {Step: "b", Err: "hangs"}, saw("zzz")})
	var got []string
	for _, g := range r.Gaps {
		got = append(got, g.Step+": "+g.Reason+": "+strings.Join(g.Facts, " "))
	}
	want := []string{
		"a: 404: a.z",
		"a: not a finite number: NaN: a.y",
		"a: reported more than once; the first counts: a.x",
		"b: hangs: ",
		"zzz: measured, but the playbook has no such step: ",
		"b: neither shown nor ruled out: shallow: b.y",
	}
	if !slices.Equal(got, want) {
		t.Errorf("gaps:\n got %q\nwant %q", got, want)
	}
	if len(r.RuledOut) != 1 || r.RuledOut[0].Because != "not so: a.x (1) > 10" {
		t.Errorf("ruled out: got %+v, want deep by a.x", r.RuledOut)
	}
}

// TestMootIsNoGap: what there is nothing to measure for is unknown to the
// conditions, stays in the finding and is not held against the report.
func TestMootIsNoGap(t *testing.T) {
	p := load(t, smallCatalog(), small)
	a, b := saw("a", "x", 1.0, "y", 1.0), saw("b", "x", 1.0, "y", 1.0)
	a.Evidence.Missing = []probes.Missing{{Facts: []string{"z"}, Reason: "nobody waited", Moot: true}}
	b.Evidence.Missing = []probes.Missing{{Facts: []string{"z"}, Reason: "nobody waited", Moot: true}}
	r := playbooks.Judge(p, []playbooks.Measurement{a, b})
	if r.Verdict != playbooks.Healthy || len(r.Gaps) != 0 || len(r.Findings[0].Missing) != 1 {
		t.Errorf("got %s with gaps %+v and missing %+v, want healthy, no gap, and the fact with its reason", r.Verdict, r.Gaps, r.Findings[0].Missing)
	}
	a = saw("a", "x", 11.0, "y", 1.0, "z", 1.0)
	r = playbooks.Judge(p, []playbooks.Measurement{a, b})
	if got, want := outline(r), "cause-found deep:low"; got != want || r.Causes[0].Unknown[0].Condition != "b.z (unknown) == 1" {
		t.Errorf("got %q, want %q for want of b.z", got, want)
	}
	b.Evidence.Missing[0].Moot = false
	if r := playbooks.Judge(p, []playbooks.Measurement{a, b}); len(r.Gaps) != 1 {
		t.Errorf("got %+v, want a gap", r.Gaps)
	}
}

func TestSummaryNamesWhatTheRootDoesNotExplain(t *testing.T) {
	p := load(t, smallCatalog(), small)
	r := playbooks.Judge(p, []playbooks.Measurement{saw("a", "x", 1.0, "y", 11.0), saw("b", "x", 11.0, "y", 11.0, "z", 0.0)})
	if got, want := r.Summary, "On the surface. Not explained by this: Layer A, warning: y is 11."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestJudgeDoesNotTouchItsInput judges one measurement from many goroutines;
// the race detector sees a write.
func TestJudgeDoesNotTouchItsInput(t *testing.T) {
	p := shipped(t)[0]
	ms := measurements(t, cases(t, p.Name)["sick-bloom-undersized"])
	ms[0].Evidence.Facts = append(ms[0].Evidence.Facts, probes.Fact{Name: "fill_ratio", Value: math.NaN()})
	ms[0].Evidence.Rows = []probes.Row{{Table: "t", Key: "k", Value: math.Inf(1)}, {Table: "t", Key: "l"}}
	want := encode(t, playbooks.Judge(p, ms))
	t.Run("group", func(t *testing.T) {
		for range 4 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				if got := encode(t, playbooks.Judge(p, ms)); !bytes.Equal(got, want) {
					t.Error("another report from another goroutine")
				}
			})
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	p := shipped(b)[0]
	ms := measurements(b, cases(b, p.Name)["chain-saturated-filter-pool"])
	b.ReportAllocs()
	for b.Loop() {
		playbooks.Judge(p, ms)
	}
}

func BenchmarkLoad(b *testing.B) {
	files, err := playbooks.Builtin()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := playbooks.Load(catalog(), files...); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzJudge judges arbitrary evidence: bytes become values, some of them not
// numbers, and omissions.
func FuzzJudge(f *testing.F) {
	p := shipped(f)[0]
	valid := schema(f)
	f.Add([]byte{}, uint8(0))
	f.Add(bytes.Repeat([]byte{7}, 100), uint8(3))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 12), uint8(0))
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 1, -1, 1e308, -1e308, 5e-324, 0.5, 2, 100, 1e6, 0.01, 20}
	f.Fuzz(func(t *testing.T, data []byte, fail uint8) {
		var ms []playbooks.Measurement
		known := 0
		next := func() byte {
			if len(data) == 0 {
				return 255
			}
			b := data[0]
			data = data[1:]
			return b
		}
		for i, step := range p.Steps {
			m := playbooks.Measurement{Step: step.ID, TookMS: int64(next())}
			m.Evidence.At = time.Unix(int64(next())<<40, 0)
			for _, doc := range step.Facts {
				b := int(next())
				if b >= 2*len(special) {
					continue // not measured
				}
				v := special[b%len(special)]
				f := probes.Fact{Name: doc.Name, Value: v, Interval: &probes.Interval{Low: v, High: -v}}
				if b%3 == 0 {
					f.Onset = &probes.Onset{At: time.Unix(int64(b)<<uint(fail%50), 0), Before: special[(b+1)%len(special)], After: v}
				}
				m.Evidence.Facts = append(m.Evidence.Facts, f)
				if !math.IsNaN(v) && !math.IsInf(v, 0) {
					known++
				}
			}
			m.Evidence.Rows = []probes.Row{{Table: "t", Key: string(data[:min(9, len(data))]), Value: special[int(next())%len(special)]}}
			if fail>>i&1 == 1 {
				m.Err = "failed \xff"
			}
			ms = append(ms, m)
		}
		r := playbooks.Judge(p, ms)
		if err := valid(encode(t, r)); err != nil {
			t.Fatalf("report does not fit the schema: %v", err)
		}
		if known == 0 && (len(r.Causes) > 0 || r.Verdict != playbooks.Inconclusive) {
			t.Fatalf("nothing is known, yet: %s", outline(r))
		}
		for _, c := range r.Causes {
			if len(c.Evidence) == 0 {
				t.Fatalf("%s without evidence", c.ID)
			}
		}
		if got, want := encode(t, again(t, p, r)), encode(t, r); !bytes.Equal(got, want) {
			t.Fatalf("replay differs:\n%s", firstDifference(string(got), string(want)))
		}
		slices.Reverse(ms)
		if got, want := encode(t, playbooks.Judge(p, ms)), encode(t, r); !bytes.Equal(got, want) {
			t.Fatal("order changes the report")
		}
		for i := range ms {
			if playbooks.Judge(p, slices.Delete(slices.Clone(ms), i, i+1)).Verdict == playbooks.Healthy {
				t.Fatal("healthy without a measurement")
			}
		}
	})
}

// FuzzLoad loads arbitrary text: every outcome but a panic is fine, and a
// refusal must say where.
func FuzzLoad(f *testing.F) {
	files, err := playbooks.Builtin()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(files[0].Data)
	f.Add([]byte(small))
	bad, err := playbooks.Files(os.DirFS("testdata/bad"), "*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range bad {
		f.Add(file.Data)
	}
	c := catalog()
	maps.Copy(c, smallCatalog())
	c["tuned"] = tuned()
	f.Fuzz(func(t *testing.T, data []byte) {
		ps, err := playbooks.Load(c, playbooks.File{Name: "fuzz.yaml", Data: data})
		if err == nil {
			playbooks.Judge(ps[0], nil)
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if line == "" {
				t.Fatalf("empty line in %q", err)
			}
		}
	})
}
