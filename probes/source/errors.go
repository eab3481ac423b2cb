package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/regpath/diagnose/probes"
)

// The ways in which a target fails, to be told apart with errors.Is. The first
// three mean that the target is dead for the agent: it is not asked again for
// a short while.
var (
	// ErrRefused means that the target was reached and turned the agent away,
	// or closed its connection: refused, reset, broken pipe, no free slot.
	ErrRefused = errors.New("refused")
	// ErrUnreachable means that no connection came about: a timeout while
	// dialling, no route, an unknown host.
	ErrUnreachable = errors.New("unreachable")
	// ErrHung means that there is a connection and no answer in time.
	ErrHung = errors.New("hung")
	// ErrNoSlot is an [ErrRefused]: the server has no connection to spare.
	ErrNoSlot = fmt.Errorf("%w: out of connections", ErrRefused)
	// ErrFull means that a Redis has no free connection for the agent, and goes on
	// answering those who have one: it is not dead.
	ErrFull = errors.New("full")
	// ErrLost means that the connection that stood is broken; whether another
	// one can be had was not tried.
	ErrLost = errors.New("lost")
	// ErrDenied means that the target answered and wants other credentials.
	ErrDenied = errors.New("denied")
	// ErrNotOffered is an [ErrDenied] of one question: the server does not know it,
	// or the agent has no right to ask it. Others are answered.
	ErrNotOffered = fmt.Errorf("%w: not offered", ErrDenied)
	// ErrAbsent means that the target does not serve the document.
	ErrAbsent = errors.New("absent")
	// ErrAnswered means that the target is alive and answered with an error.
	ErrAnswered = errors.New("answered with an error")
	// ErrInterrupted means that the run's own context ended first: it tells
	// nothing about the target.
	ErrInterrupted = errors.New("interrupted")
)

// NotOffered returns an [ErrNotOffered].
func NotOffered(text string) error { return fail(ErrNotOffered, text) }

// Lacking returns the number that cannot be had because of err.
func Lacking(err error) probes.Number {
	if errors.Is(err, ErrNotOffered) || errors.Is(err, ErrAbsent) {
		return probes.Absent(err.Error())
	}
	return probes.Unknown(err.Error())
}

// Dead reports whether err means that the target does not serve anybody, or at
// least not the agent.
func Dead(err error) bool {
	return errors.Is(err, ErrRefused) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrHung)
}

// failure is an error of one of the kinds above, with a text made of parts
// that hold no secrets: drivers put users, DSNs and URLs into theirs.
type failure struct {
	kind error
	text string
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }

func fail(kind error, text string) error { return &failure{kind: kind, text: text} }

// interrupted says that the run ended first, for the reason given.
func interrupted(why error) error { return fail(ErrInterrupted, "interrupted: "+why.Error()) }

// classify turns what a driver says into a failure. connected tells whether a
// connection stood when err came up; budget is the time that was granted. ctx
// is the run's own context, without the budget. A nil result means that err is
// not about the network.
func classify(ctx context.Context, err error, connected bool, budget time.Duration) error {
	if ctx.Err() != nil {
		return interrupted(ctx.Err())
	}
	var (
		known  *failure
		errno  syscall.Errno
		dns    *net.DNSError
		netErr net.Error
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		if connected {
			return fail(ErrHung, fmt.Sprintf("connected, but no answer within %v", budget))
		}
		return fail(ErrUnreachable, fmt.Sprintf("no connection within %v", budget))
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		errors.As(err, &errno)
		return fail(ErrRefused, errno.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return fail(ErrRefused, "connection closed by the other side")
	case errors.As(err, &dns):
		return fail(ErrUnreachable, "host name cannot be resolved")
	case errors.As(err, &errno):
		return fail(ErrUnreachable, errno.Error())
	}
	return nil
}
