package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/regpath/diagnose/probes"
)

const (
	// DefaultWindow is the time between two samples unless a playbook says
	// otherwise: long enough for a service of some hundred requests a second
	// to show ratios, short enough for an on-call who waits.
	DefaultWindow = 3 * time.Second
	// MinWindow is the shortest time between two samples that rates are
	// computed from; below it a single slow request dominates.
	MinWindow = 500 * time.Millisecond
	// MaxWindow bounds the option; a longer look is a job for a recorder.
	MaxWindow = 30 * time.Second
	// reserve is left before the deadline for the second sample itself.
	reserve = 500 * time.Millisecond
)

// Window returns the window to use for the option d; zero means the default.
func Window(d time.Duration) (time.Duration, error) {
	if err := CheckWindow(d); err != nil {
		return 0, fmt.Errorf("window: %w", err)
	}
	return cmp.Or(d, DefaultWindow), nil
}

// CheckWindow says what is wrong with the time between two samples; zero is none.
func CheckWindow(d time.Duration) error {
	if d == 0 || d >= MinWindow && d <= MaxWindow {
		return nil
	}
	return fmt.Errorf("%v is not between %v and %v", d, MinWindow, MaxWindow)
}

// WindowOptions are the options of a probe that takes two samples, if it has no others.
type WindowOptions struct {
	// Window is the time between the two samples: 0.5 s to 30 s, 3 s unless set.
	Window time.Duration `yaml:"window"`
}

// Windowed makes a [probes.Kind]'s New for such a probe.
func Windowed(probe func(window time.Duration) probes.Probe) func(decode func(any) error) (probes.Probe, error) {
	return func(decode func(any) error) (probes.Probe, error) {
		var o WindowOptions
		if err := decode(&o); err != nil {
			return nil, err
		}
		window, err := Window(o.Window)
		if err != nil {
			return nil, err
		}
		return probe(window), nil
	}
}

// hasty is the least window of a check that stood by and whose evidence is wanted at
// once: the alert is there, and a report is to be, too, in a second or little more.
const hasty = time.Second

// Wait waits for the window between two samples, which ctx may say otherwise (see
// [probes.WithWindow] and [probes.Standby]), or for less when the deadline of ctx
// leaves less. It returns an error, at once, when not even MinWindow is left, and
// when ctx ends while it waits.
func Wait(ctx context.Context, window time.Duration) error {
	begun, wanted := time.Now(), probes.Park(ctx)
	own := window
	window = probes.Window(ctx, own)
	if wanted != nil {
		window = max(window, MinWindow) // the first sample took longer than it was given
	}
	if deadline, ok := ctx.Deadline(); ok {
		window = min(window, time.Until(deadline)-reserve)
	}
	if window < MinWindow {
		return errors.New("the deadline leaves no time for a second sample")
	}
	timer := time.NewTimer(window)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-wanted:
			wanted = nil
			timer.Reset(max(0, min(own, window, hasty)-time.Since(begun))) // a shorter one would tell less
		case <-ctx.Done():
			return fmt.Errorf("no second sample: %w", ctx.Err())
		}
	}
}

// Sample is what is known about a target at the moment counters were read.
type Sample struct {
	// Taken is the agent's clock, with its monotonic part.
	Taken time.Time
	// Now is the target's own clock, where it tells it.
	Now Time
	// Epoch changes when counters start again from 0: a start time, a run id.
	// Empty when the target does not tell.
	Epoch string
}

// Span is the time between two samples of the same counters.
type Span struct {
	seconds float64
	why     string // why changes over it are unknown
	single  bool   // there is one sample
}

// NoSpan returns the Span of a measurement without a second sample: every
// change over it is unknown for the reason given, and so is what stands at both ends.
func NoSpan(why string) Span { return Span{why: why, single: true} }

// Between returns the Span from one sample to the next. The target's own clock
// measures it, because it excludes the time that the answers took; the agent's
// clock does where the target tells none or it jumped.
func Between(first, second Sample) Span {
	if first.Epoch != second.Epoch {
		return Span{why: "counters were reset between the samples: the target restarted, or several instances answer behind its address"}
	}
	took := second.Taken.Sub(first.Taken).Seconds()
	a, ok := first.Now.Get()
	b, ok2 := second.Now.Get()
	if ok && ok2 {
		if own := b.Sub(a).Seconds(); own > took/2 && own < took*2 {
			took = own
		}
	}
	if took < MinWindow.Seconds()/2 {
		return Span{why: "the samples are too close to each other"}
	}
	return Span{seconds: took}
}

// Reading is what a target said at one moment.
type Reading[T any] struct {
	Doc T
	Sample
}

// Next waits for the window, reads again, and returns the last reading with the
// span from r to it: where there is no second one, r itself and a span that says why.
func (r Reading[T]) Next(ctx context.Context, window time.Duration, read func() (Reading[T], error)) (Reading[T], Span) {
	if err := Wait(ctx, window); err != nil {
		return r, NoSpan(err.Error())
	}
	next, err := read()
	if err != nil {
		return r, NoSpan(err.Error())
	}
	return next, Between(r.Sample, next.Sample)
}

// Duration returns the length of the span, 0 for none.
func (s Span) Duration() time.Duration {
	return time.Duration(s.seconds * float64(time.Second))
}

// Delta returns by how much a counter grew. It is unknown, never negative, when
// the counter went down or either value is unknown.
func (s Span) Delta(first, second probes.Number) probes.Number {
	if s.why != "" {
		return probes.Unknown(s.why)
	}
	d := second.Minus(first)
	return d.If(d.Or(0) >= 0, "a counter went down between the samples: it was reset")
}

// Lower returns the lower of two samples of a gauge: what it was at both ends at
// least. One sample does not tell.
func (s Span) Lower(first, second probes.Number) probes.Number { return s.both(first.Lower(second)) }

// Higher is likewise what a gauge was at most.
func (s Span) Higher(first, second probes.Number) probes.Number {
	return s.both(first.Higher(second))
}

func (s Span) both(n probes.Number) probes.Number { return n.If(!s.single, s.why) }

// Rate returns the growth of a counter per second.
func (s Span) Rate(first, second probes.Number) probes.Number {
	return s.PerSecond(s.Delta(first, second))
}

// PerSecond divides a growth over the span by its length.
func (s Span) PerSecond(delta probes.Number) probes.Number {
	return delta.Over(probes.Known(s.seconds), "the samples are too close to each other")
}
