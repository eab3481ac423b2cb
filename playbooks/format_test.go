package playbooks_test

import (
	"math"
	"testing"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

func TestFormatValue(t *testing.T) {
	f := func(v float64, unit probes.Unit, want string) {
		t.Helper()
		if got := playbooks.FormatValue(v, unit); got != want {
			t.Errorf("FormatValue(%v, %q): got %q, want %q", v, unit, got, want)
		}
	}
	f(0.97, probes.Ratio, "97 %")
	f(0.0101, probes.Ratio, "1.01 %")
	f(0, probes.Ratio, "0 %")
	f(1.0/3, probes.Ratio, "33.3 %")
	f(1e-9, probes.Ratio, "1e-07 %")
	f(0.99999, probes.Ratio, "100 %")
	f(0.012, probes.Seconds, "12 ms")
	f(0.00012, probes.Seconds, "120 µs")
	f(0.9999, probes.Seconds, "1 s")
	f(0, probes.Seconds, "0 s")
	f(90, probes.Seconds, "90 s")
	f(3600, probes.Seconds, "60 min")
	f(86400, probes.Seconds, "24 h")
	f(864000, probes.Seconds, "10 d")
	f(-2, probes.Seconds, "-2 s")
	f(1.2e9, probes.Bytes, "1.2 GB")
	f(999, probes.Bytes, "999 B")
	f(0, probes.Bytes, "0 B")
	f(120, probes.PerSecond, "120/s")
	f(0.25, probes.PerSecond, "0.25/s")
	f(1, probes.Bool, "yes")
	f(0, probes.Bool, "no")
	f(1234567, probes.Count, "1,234,567")
	f(-1234567, probes.Count, "-1,234,567")
	f(-123, probes.Count, "-123")
	f(2.8749, probes.Count, "2.87")
	f(1e20, probes.Count, "1e+20")
	f(math.Copysign(0, -1), probes.Count, "0")
	f(-0.2, probes.Count, "-0.2")
	f(-100.2, probes.Count, "-100")
	f(3, "apples", "3 apples")
}
