package guard

import (
	"context"
	"errors"
	"time"
)

// ErrUnsolved is what a Captcha wraps to say that a challenge is not solved:
// wrong, forged, expired or for another attempt.
var ErrUnsolved = errors.New("challenge is not solved")

// Challenge is what a client has to solve.
type Challenge struct {
	Kind       string    // how to solve it
	Token      string    // comes back with the answer
	Difficulty int       // its meaning depends on Kind
	Expires    time.Time // solved later, it is worth nothing
}

// Captcha sets challenges and knows solved ones.
type Captcha interface {
	// Issue sets a challenge that is good for this attempt only. An error ends
	// the request as Unavailable.
	Issue(ctx context.Context, attempt string) (Challenge, error)
	// Verify returns nil if answer solves the challenge of the token for this
	// attempt, an error that wraps ErrUnsolved, whose text the client may see, if
	// not, and any other error if it cannot tell. It may be asked more than once:
	// single use comes from the attempt, which can be consumed once. If answers
	// can be guessed, an implementation must count the wrong ones.
	Verify(ctx context.Context, attempt, token, answer string) error
}

// captchaCheck rejects challenges that are not solved. Whether one is needed is
// for the gate to say, which costs more.
type captchaCheck struct {
	captcha Captcha
}

// Check implements Checker.
func (c captchaCheck) Check(ctx context.Context, r Request) (Verdict, error) {
	if r.Token == "" {
		return Verdict{}, nil
	}
	err := c.captcha.Verify(ctx, r.Attempt, r.Token, r.Answer)
	if errors.Is(err, ErrUnsolved) {
		return Verdict{Outcome: ChallengeRequired, Reason: err.Error()}, nil
	}
	return Verdict{}, err
}
