package webhook

import (
	"errors"
	"math/rand/v2"
	"time"
)

// RetryAfter wraps an error that Work returns: the next call is made after d,
// at most an hour.
func RetryAfter(err error, d time.Duration) error {
	return &retryAfterError{err, min(max(d, 0), time.Hour)}
}

// RetryDelay returns the time that RetryAfter put on err; false if it did not.
func RetryDelay(err error) (time.Duration, bool) {
	after, ok := errors.AsType[*retryAfterError](err)
	if !ok {
		return 0, false
	}
	return after.delay, true
}

type retryAfterError struct {
	error
	delay time.Duration
}

func (e *retryAfterError) Unwrap() error { return e.error }

// maxAttempts times at most maxDelay is about a day.
const (
	maxAttempts = 300
	firstDelay  = time.Second
	maxDelay    = 5 * time.Minute
)

// Backoff is the time to wait after the given number of failed attempts: it
// doubles from firstDelay to maxDelay, and a tenth of it is chance.
func Backoff(attempts int) time.Duration {
	d := maxDelay
	if shift := attempts - 1; shift < 10 {
		d = min(maxDelay, firstDelay<<max(shift, 0))
	}
	return d - time.Duration(rand.Int64N(int64(d)/10+1))
}

// due is when a job is tried again that waits for d: River wants a time that is not past.
func due(d time.Duration) time.Time { return time.Now().Add(max(d, 10*time.Millisecond)) }
