package guard

import (
	"context"
	"net/netip"
	"time"
)

// Request is what the checks may look at. The caller fills in what its path
// has; what is not there stays empty.
type Request struct {
	// Addr is the client's address, as Origin.Client finds it. Requests without
	// a valid one are limited together.
	Addr netip.Addr
	// Name is the name asked for, in its canonical form.
	Name string
	// Attempt, Token and Answer come with a registration: the attempt that
	// Guard.Begin opened, and the challenge with its solution if it set one.
	Attempt, Token, Answer string
	// At is when the request came. The Tree sets it, once for all checks.
	At time.Time
}

// Outcome is what a check says about a request.
type Outcome uint8

// The outcomes. Pass and Exempt let the request go on to the next check, all
// others end it.
const (
	Pass              Outcome = iota // nothing to object
	Exempt                           // pass, and the descendants of this check are not asked
	LastAnswer                       // answered already: Verdict.Taken
	Limited                          // too many requests; RetryAfter is exact
	ChallengeRequired                // a challenge must be solved, or was not
	Refused                          // not welcome; a repetition does not help
	Unavailable                      // a check could not decide and fails closed
	outcomes
)

// String returns the outcome as metrics spell it.
func (o Outcome) String() string {
	names := [outcomes]string{"pass", "exempt", "last_answer", "limited", "challenge_required", "refused", "unavailable"}
	if o >= outcomes {
		return "invalid"
	}
	return names[o]
}

// Verdict is the outcome with what the client is told.
type Verdict struct {
	Outcome Outcome
	// Check names the check that decided; it is empty when all let the request
	// pass.
	Check string
	// Reason may be shown to the client: it repeats nothing the client sent.
	Reason string
	// RetryAfter is how long to wait before the same request can pass. It is 0
	// where waiting does not help.
	RetryAfter time.Duration
	// Taken is the answer that goes with LastAnswer.
	Taken bool
}

// Path names the ways a request can take; values can be joined with "|".
type Path uint8

// The paths.
const (
	CheckPath    Path = 1 << iota // is this name free?
	AttemptPath                   // open an attempt to register
	RegisterPath                  // register
	allPaths     = 1<<iota - 1
	paths        = iota
)

// Tier is how dear a check is.
type Tier uint8

// The tiers, from the cheapest to the dearest.
const (
	Local  Tier = iota // within the process: nanoseconds, microseconds at most
	Remote             // asks another server: up to its time limit
)

// Policy is what becomes of a request when a check cannot decide.
type Policy uint8

// The policies.
const (
	// FailOpen lets the request pass, unless its client has hung up: nobody
	// gets past a check by closing the connection while it works.
	FailOpen Policy = iota
	// FailClosed ends the request as Unavailable.
	FailClosed
)

// Checker is one check.
type Checker interface {
	// Check judges a request. An error means that it could not decide: the
	// node's Policy does then, and the error is counted and reported. It must be
	// safe for concurrent use, bound its own time, and not block when it is of
	// the tier Local.
	Check(ctx context.Context, r Request) (Verdict, error)
}
