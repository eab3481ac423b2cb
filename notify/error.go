package notify

import (
	"errors"
	"fmt"
	"time"
)

// Class says what a failed delivery means for whoever decides about repeating.
type Class int

// The classes. Unknown is the zero value: whoever cannot tell what became of a
// message must not repeat it blindly.
const (
	// Unknown: the message may or may not have got through (cut after sending,
	// a 5xx). Repeat with Notice.Uncertain set.
	Unknown Class = iota
	// Retry: nothing got through; repeat after RetryAfter, or after the
	// caller's own back-off when that is zero.
	Retry
	// Payload: the sink refuses this content, rich and plain. Repeating the
	// same content is useless.
	Payload
	// Destination: the place is gone, closed or not open to us. Use another
	// one and tell an operator; Hint says what to mend.
	Destination
	// Auth: the credential is refused or lacks a right. As Destination.
	Auth
)

// String returns the class in lower case.
func (c Class) String() string {
	switch c {
	case Unknown:
		return "unknown outcome"
	case Retry:
		return "retry"
	case Payload:
		return "payload"
	case Destination:
		return "destination"
	case Auth:
		return "auth"
	}
	return fmt.Sprintf("class(%d)", int(c))
}

// Error is why a notice was not delivered, or not wholly. Its text holds no
// secret.
type Error struct {
	Class Class
	// RetryAfter is how long the sink asked to be left alone; zero when it did
	// not say.
	RetryAfter time.Duration
	// Hint tells an operator what to do about it, as a sentence without a full
	// stop; empty when there is nothing to do.
	Hint string
	Err  error
}

// Error returns the cause, and the hint in parentheses.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Err.Error()
	}
	return e.Err.Error() + " (" + e.Hint + ")"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of a delivery error: Unknown for one that is not
// an *Error.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class
	}
	return Unknown
}
