package probetest_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
)

// catcher takes down what a helper complains about.
type catcher struct {
	testing.TB
	said []string
}

func (*catcher) Helper() {}

func (c *catcher) Errorf(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf(format, args...))
}

func TestValidComplains(t *testing.T) {
	t.Parallel()
	docs := []probes.FactDoc{{Name: "a", Unit: probes.Seconds}, {Name: "b"}}
	good := func() probes.Evidence {
		return probes.Evidence{
			Source: "here", At: time.Now(), Facts: []probes.Fact{{Name: "a", Value: 1, Unit: probes.Seconds}},
			Missing: []probes.Missing{{Facts: []string{"b"}, Reason: "no answer"}},
		}
	}
	for want, edit := range map[string]func(*probes.Evidence) error{
		"":                            func(*probes.Evidence) error { return nil },
		"reported twice":              func(ev *probes.Evidence) error { ev.Missing[0].Facts = []string{"a", "b"}; return nil },
		"not documented":              func(ev *probes.Evidence) error { ev.Facts[0].Name = "c"; return nil },
		"is NaN":                      func(ev *probes.Evidence) error { ev.Facts[0].Value = math.NaN(); return nil },
		"is negative":                 func(ev *probes.Evidence) error { ev.Facts[0].Value = -1; return nil },
		"has unit":                    func(ev *probes.Evidence) error { ev.Facts[0].Unit = probes.Bytes; return nil },
		"outside its interval":        func(ev *probes.Evidence) error { ev.Facts[0].Interval = &probes.Interval{Low: 2, High: 3}; return nil },
		"without facts or reason":     func(ev *probes.Evidence) error { ev.Missing[0].Reason = ""; return nil },
		"neither reported":            func(ev *probes.Evidence) error { ev.Missing = nil; return nil },
		"nothing could be measured":   func(*probes.Evidence) error { return errors.New("but there is a fact") },
		"evidence without source":     func(ev *probes.Evidence) error { ev.Source = ""; return nil },
		"0 facts and error <nil>: an": func(ev *probes.Evidence) error { ev.Facts = nil; return nil },
	} {
		c, ev := &catcher{TB: t}, good()
		err := edit(&ev)
		probetest.Valid(c, docs, ev, err)
		if got := strings.Join(c.said, "\n"); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("want a complaint with %q, got %q", want, got)
		}
	}
}

func TestWantComplains(t *testing.T) {
	t.Parallel()
	ev := probes.Evidence{Facts: []probes.Fact{{Name: "a", Value: 1}}, Missing: []probes.Missing{{Facts: []string{"b"}, Reason: "no answer"}}}
	c := &catcher{TB: t}
	probetest.Want(c, ev, "a", 1)
	probetest.WantMissing(c, ev, "b", "no answer")
	if len(c.said) != 0 {
		t.Errorf("got complaints: %q", c.said)
	}
	probetest.Want(c, ev, "a", 1.1)
	probetest.Want(c, ev, "b", 1)
	probetest.WantMissing(c, ev, "a", "")
	probetest.WantMissing(c, ev, "b", "refused")
	if len(c.said) != 4 {
		t.Errorf("want four complaints, got %q", c.said)
	}
}
