package guard

import (
	"fmt"
	"math"
	"time"
)

// Limit is a number of requests per time. A negative Count switches the limit
// off; the zero value stands for the default.
type Limit struct {
	Count int
	Per   time.Duration
}

// String implements fmt.Stringer.
func (l Limit) String() string {
	if l.off() {
		return "unlimited"
	}
	return fmt.Sprintf("%d per %s", l.Count, l.Per)
}

func (l Limit) off() bool { return l.Count < 0 }

func (l Limit) or(count int, per time.Duration) Limit {
	if l == (Limit{}) {
		return Limit{Count: count, Per: per}
	}
	return l
}

func (l Limit) validate() error {
	switch {
	case l.off():
		return nil
	case l.Count == 0 || l.Per <= 0:
		return fmt.Errorf("limit of %s must have a positive count and time", l)
	case l.Count > math.MaxInt32 || l.Per/time.Duration(l.Count) == 0 || l.Per > 24*time.Hour:
		return fmt.Errorf("limit of %s is out of range: at most one per nanosecond and 2147483647, over at most a day", l)
	}
	return nil
}

// rate is the generic cell rate algorithm (ITU-T I.371, the leaky bucket as a
// meter): count requests at once, after that one per step, and never more than
// count per time in the long run. Its whole state is one instant, the
// theoretical arrival time: an entry whose instant is past equals no entry.
type rate struct {
	step  int64 // nanoseconds between requests at full rate
	slack int64 // how far the instant may lie ahead when a request comes
}

func (l Limit) rate() rate {
	step := int64(l.Per) / int64(l.Count)
	return rate{step: step, slack: step * int64(l.Count-1)}
}

// take asks for one request at now. It returns the instant to keep, and how
// long to wait before the next request can pass: 0 when this one did. An instant
// further ahead than any request could have put it means that the clock was set
// back, which must lock nobody out.
func (r rate) take(instant, now int64) (next, wait int64) {
	instant = min(instant, now+r.slack+r.step)
	if wait := instant - r.slack - now; wait > 0 {
		return instant, wait
	}
	return max(instant, now) + r.step, 0
}
