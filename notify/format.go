package notify

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/regpath/diagnose/playbooks"
	"github.com/regpath/diagnose/probes"
)

// Value writes a measured number for a human, as the sentences of a report do:
// "97 %", "12.3 ms", "1.2 GB", "3.4/s", "1,024", "yes".
func Value(v float64, u probes.Unit) string {
	switch {
	case math.IsNaN(v):
		return "not a number"
	case math.IsInf(v, 0):
		return "infinite"
	}
	return playbooks.FormatValue(v, probes.Unit(Line(string(u), 20)))
}

// ValueWithin is Value followed by the interval the value was sampled to:
// "1.02 % (95 % sure: 0.6 % to 1.7 %)".
func ValueWithin(v float64, u probes.Unit, in *probes.Interval) string {
	if in == nil {
		return Value(v, u)
	}
	return Value(v, u) + " (95 % sure: " + Value(in.Low, u) + " to " + Value(in.High, u) + ")"
}

// Since writes since when a value has had its level: "since 14:32:10 UTC, from 2 %
// to 91 %".
func Since(o probes.Onset, u probes.Unit) string {
	return "since " + o.At.UTC().Format("15:04:05 UTC") + ", from " + Value(o.Before, u) + " to " + Value(o.After, u)
}

// Count writes a whole number with what it counts: "1 alert", "1,024 alerts".
func Count[N ~int | ~int64 | ~uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Value(float64(n), probes.Count) + " " + what + "s"
}

// Duration writes how long something went on: "850 ms", "3 min 20 s", "2 d 3 h".
func Duration(d time.Duration) string {
	switch s := d.Round(time.Second); {
	case s < time.Minute:
		return Value(d.Seconds(), probes.Seconds)
	case s < time.Hour:
		return two(s, time.Minute, "min", time.Second, "s")
	case s < 24*time.Hour:
		return two(s, time.Hour, "h", time.Minute, "min")
	default:
		return two(s, 24*time.Hour, "d", time.Hour, "h")
	}
}

// two writes d in two units, the lesser one only if it is not zero.
func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	s := strconv.FormatInt(int64(d/big), 10) + " " + bigName
	if rest := d % big / small; rest > 0 {
		s += " " + strconv.FormatInt(int64(rest), 10) + " " + smallName
	}
	return s
}

// Clock writes t in UTC with its date.
func Clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// CostLine says in one line what a run did to its targets.
func CostLine(c probes.Cost) string {
	return strings.Join([]string{
		Count(c.RedisCommands, "Redis command"),
		Count(c.Queries, "SQL statement"),
		Count(c.HTTPRequests, "HTTP request"),
		Value(float64(c.Bytes), probes.Bytes) + " read",
	}, ", ")
}
