package probes_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/regpath/diagnose/probes"
)

func TestRecorder(t *testing.T) {
	t.Parallel()
	docs := []probes.FactDoc{{Name: "a", Unit: probes.Seconds}, {Name: "b"}, {Name: "c"}, {Name: "d", Unit: probes.Bool}, {Name: "e", Unit: probes.Ratio}, {Name: "f"}}
	rec := probes.NewRecorder(docs)
	rec.Set("a", probes.Known(1))
	rec.Set("a", probes.Known(2)) // the first word counts
	rec.Miss("too late", "a", "b")
	rec.Set("b", probes.Known(3))
	rec.Set("c", probes.Unknown("too late"))
	rec.SetBool("d", true)
	rec.SetSampled("e", probes.Known(0.5), probes.Interval{Low: 0.4, High: 0.6})
	rec.Row(probes.Row{Table: "t", Key: "k"})
	rec.Cost().Queries = 3
	ev, err := rec.Evidence("here", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(ev.Facts) != 3 || ev.Facts[0] != (probes.Fact{Name: "a", Value: 1, Unit: probes.Seconds}) || ev.Facts[1].Value != 1 || ev.Facts[2].Interval.High != 0.6 {
		t.Errorf("facts: got %+v", ev.Facts)
	}
	if len(ev.Missing) != 2 || strings.Join(ev.Missing[0].Facts, ",") != "b,c" || strings.Join(ev.Missing[1].Facts, ",") != "f" {
		t.Errorf("missing: got %+v, want b and c for one reason and f, of which nothing was said", ev.Missing)
	}
	if ev.Source != "here" || ev.Window != time.Second || ev.Cost.Queries != 3 || len(ev.Rows) != 1 || time.Since(ev.At) > time.Minute {
		t.Errorf("the rest: got %+v", ev)
	}
}

// TestRecorderTellsAbsentFromUnread: what a service leaves out, does not offer or
// has too little of is absent; what could not be read is not.
func TestRecorderTellsAbsentFromUnread(t *testing.T) {
	docs := []probes.FactDoc{{Name: "known"}, {Name: "few"}, {Name: "none"}, {Name: "left_out"}, {Name: "lack"}, {Name: "bad"}, {Name: "silent"}}
	rec := probes.NewRecorder(docs)
	three := probes.Known(3)
	rec.Set("known", three)
	rec.Set("few", three.AtLeast(4, "too few").Times(three))
	rec.Set("none", three.Over(probes.Known(0), "none"))
	rec.Set("left_out", probes.Number{}.Named("n"))
	rec.Lack("not offered", "lack")
	rec.Set("bad", probes.ParseNumber("x").Named("n"))
	ev, err := rec.Evidence("test", 0)
	if err != nil {
		t.Fatal(err)
	}
	var absent []string
	for _, m := range ev.Missing {
		if m.Absent {
			absent = append(absent, m.Facts...)
		}
	}
	if want := "few none left_out lack"; strings.Join(absent, " ") != want {
		t.Errorf("absent: got %v, want %s", absent, want)
	}
}

// TestRecorderTellsMootFromMissing: one reason may be a gap for one fact and
// none for another.
func TestRecorderTellsMootFromMissing(t *testing.T) {
	t.Parallel()
	rec := probes.NewRecorder([]probes.FactDoc{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}})
	rec.Set("a", probes.Known(1))
	rec.Miss("none", "b")
	rec.Moot("none", "a", "b", "c")
	rec.Set("d", probes.Known(2).MootIf(true, "none").Times(probes.Known(3)))
	ev, err := rec.Evidence("here", 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(ev.Missing) != 2 || ev.Missing[0].Moot || strings.Join(ev.Missing[0].Facts, ",") != "b" ||
		!ev.Missing[1].Moot || strings.Join(ev.Missing[1].Facts, ",") != "c,d" {
		t.Errorf("missing: got %+v, want b as a gap, c and d as moot", ev.Missing)
	}
}

func TestRecorderWithoutFacts(t *testing.T) {
	t.Parallel()
	rec := probes.NewRecorder([]probes.FactDoc{{Name: "a"}, {Name: "b"}})
	rec.Miss("connection refused", "a", "b")
	ev, err := rec.Evidence("here", 0)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || len(ev.Missing) != 1 {
		t.Errorf("got %v and %+v, want an error with the reason, and the evidence of the attempt", err, ev)
	}
}

// TestLongTexts: what comes from outside is cut to what a report can hold.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 100_000)
	r := probes.NewRecorder([]probes.FactDoc{{Name: "x"}, {Name: "y"}})
	r.Set("x", probes.Known(1))
	r.Row(probes.Row{Table: "t", Key: long, Note: long})
	r.Miss(long, "y")
	ev, err := r.Evidence("here", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{ev.Rows[0].Key, ev.Rows[0].Note, ev.Missing[0].Reason} {
		if n := utf8.RuneCountInString(s); n > 401 || !strings.HasSuffix(s, "ä…") {
			t.Errorf("a text of %d runes is left", n)
		}
	}
}
