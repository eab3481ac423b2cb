package playbooks

import (
	"math"
	"strconv"
	"strings"

	"github.com/regpath/diagnose/probes"
)

// FormatValue writes a value for a human, by its unit: "97 %", "12 ms",
// "1.2 GB", "120/s", "yes", "1,234,567". Three significant digits.
func FormatValue(v float64, unit probes.Unit) string {
	switch unit {
	case probes.Ratio:
		return significant(v*100) + " %"
	case probes.Seconds:
		return formatSeconds(v)
	case probes.Bytes:
		return scaled(v, 1000, "B", "kB", "MB", "GB", "TB", "PB")
	case probes.PerSecond:
		return significant(v) + "/s"
	case probes.Bool:
		if v == 0 {
			return "no"
		}
		return "yes"
	case probes.Count:
		return significant(v)
	}
	return significant(v) + " " + string(unit)
}

func formatSeconds(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0 s"
	case a < 0.9995e-3:
		return significant(v*1e6) + " µs"
	case a < 0.9995:
		return significant(v*1e3) + " ms"
	case a < 120:
		return significant(v) + " s"
	case a < 2*3600:
		return significant(v/60) + " min"
	case a < 48*3600:
		return significant(v/3600) + " h"
	}
	return significant(v/86400) + " d"
}

// scaled divides v by step until it is below it, naming the unit.
func scaled(v, step float64, units ...string) string {
	i := 0
	for i < len(units)-1 && math.Abs(v) >= step {
		v /= step
		i++
	}
	return significant(v) + " " + units[i]
}

// significant writes v with three significant digits, whole numbers in full,
// with commas between thousands.
func significant(v float64) string {
	if math.Abs(v) >= 1e15 || math.IsNaN(v) {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	if v == math.Trunc(v) || math.Abs(v) >= 100 {
		return commas(strconv.FormatFloat(math.Round(v), 'f', 0, 64))
	}
	if math.Abs(v) < 1e-4 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return rounded(v, 3)
}

// formatRaw writes v as it stands in a condition: no unit, four significant
// digits, whole numbers in full.
func formatRaw(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e15 || (a > 0 && a < 1e-4):
		return strconv.FormatFloat(v, 'g', 4, 64)
	case v == math.Trunc(v):
		return strconv.FormatFloat(v+0, 'f', 0, 64) // + 0 makes a negative zero plain
	}
	return rounded(v, 4)
}

// rounded writes v with so many significant digits and no exponent.
func rounded(v float64, digits int) string {
	magnitude := int(math.Floor(math.Log10(math.Abs(v))))
	s := strconv.FormatFloat(v, 'f', max(0, digits-1-magnitude), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func commas(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	if digits == "0" {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
