package probes

import (
	"math"
	"strconv"
)

// Number is a number that may be unknown, with the reason why. Arithmetic
// carries the unknown along, so that a fact computed from a number that a
// service leaves out is missing, never 0. The zero Number is unknown.
type Number struct {
	value float64
	known bool
	why   string
	kind  lack
}

// lack is in what way a number is unknown.
type lack int

const (
	unread lack = iota // it was to be had and was not read
	moot               // there is nothing to know
	absent             // it is not to be had here
)

// Known returns a known number. NaN and infinities are not numbers that can be
// judged: they become unknown.
func Known(v float64) Number {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Unknown("is not a finite number")
	}
	return Number{value: v, known: true}
}

// Unknown returns an unknown number with the reason why it is unknown.
func Unknown(why string) Number { return Number{why: why} }

// Absent returns a number that is not to be had here, with the reason why: the
// back end does not offer it, nothing is configured to be asked for it, or too
// little has happened to tell it.
func Absent(why string) Number { return Number{why: why, kind: absent} }

// Get returns the value and whether it is known.
func (n Number) Get() (float64, bool) { return n.value, n.known }

// Or returns the value, or v where it is unknown.
func (n Number) Or(v float64) float64 {
	if n.known {
		return n.value
	}
	return v
}

// Why says why the number is unknown; empty when it is known.
func (n Number) Why() string {
	switch {
	case n.known:
		return ""
	case n.why == "":
		return "not measured"
	}
	return n.why
}

// Named puts the name of the field that was read before the reason, for a
// number that has just been decoded. A service leaves out what it cannot tell.
func (n Number) Named(field string) Number {
	if !n.known && n.why == "" {
		n = Absent("is left out")
	}
	return n.After(field + " ")
}

// After puts words before the reason why the number is unknown.
func (n Number) After(words string) Number {
	if !n.known {
		n.why = words + n.Why()
	}
	return n
}

// Plus returns n + m, unknown when either is.
func (n Number) Plus(m Number) Number {
	return n.with(m, func(a, b float64) float64 { return a + b })
}

// Minus returns n - m, unknown when either is.
func (n Number) Minus(m Number) Number {
	return n.with(m, func(a, b float64) float64 { return a - b })
}

// Times returns n * m, unknown when either is.
func (n Number) Times(m Number) Number {
	return n.with(m, func(a, b float64) float64 { return a * b })
}

// Over returns n / m, unknown when either is. What is divided by 0 is not to be
// had, for the reason given in empty: "no requests in the window".
func (n Number) Over(m Number, empty string) Number {
	if n.known && m.known && m.value == 0 {
		return Absent(empty)
	}
	return n.with(m, func(a, b float64) float64 { return a / b })
}

// If returns n when ok holds, else an unknown number with the reason. A number
// that was unknown already keeps its own reason.
func (n Number) If(ok bool, why string) Number {
	if n.known && !ok {
		return Unknown(why)
	}
	return n
}

// MootIf returns n unless nothing is there to measure: then an unknown number
// with that reason, whatever n is, which is no gap in the evidence.
func (n Number) MootIf(nothing bool, why string) Number {
	if nothing {
		return Number{why: why, kind: moot}
	}
	return n
}

// AtLeast returns n if it reaches least. With less there is too little to tell
// anything, for the reason given.
func (n Number) AtLeast(least float64, why string) Number {
	if n.known && n.value < least {
		return Absent(why)
	}
	return n
}

// Clamp returns n limited to [low, high].
func (n Number) Clamp(low, high float64) Number {
	if n.known {
		n.value = min(max(n.value, low), high)
	}
	return n
}

// Lower returns the lower of two numbers, unknown when either is: what is unknown
// may be lower still.
func (n Number) Lower(m Number) Number {
	return n.with(m, func(a, b float64) float64 { return min(a, b) })
}

// Higher returns the higher of two numbers, unknown when either is: what is
// unknown may be higher still.
func (n Number) Higher(m Number) Number {
	return n.with(m, func(a, b float64) float64 { return max(a, b) })
}

// UnmarshalJSON takes a JSON number that is finite and not negative, as all
// counters, gauges and sizes of a contract are. Anything else makes the number
// unknown rather than the whole document: one broken field costs one fact.
func (n *Number) UnmarshalJSON(b []byte) error {
	*n = Number{}
	if string(b) != "null" {
		*n = ParseNumber(string(b))
	}
	return nil
}

// ParseNumber reads a decimal number that is finite and not negative; anything
// else is unknown.
func ParseNumber(text string) Number {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		return Unknown("is out of range")
	case err != nil:
		return Unknown("is not a number")
	case v < 0:
		return Unknown("is negative")
	}
	return Known(v)
}

func (n Number) with(m Number, op func(a, b float64) float64) Number {
	switch {
	case !n.known:
		return n
	case !m.known:
		return m
	}
	return Known(op(n.value, m.value))
}
