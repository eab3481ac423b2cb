package api

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/guard"
)

// request is what the guard sees of r.
func (s *Server) request(r *http.Request) guard.Request {
	return guard.Request{Addr: s.origin.Client(r.RemoteAddr, r.Header.Values("X-Forwarded-For"))}
}

// guardedCheck is a check that the guard lets through, answers itself, or refuses.
func (s *Server) guardedCheck(w http.ResponseWriter, r *http.Request, asked string) (code int, tag string) {
	n, err := s.service.Names.Registrable(asked)
	if err != nil {
		return fail(w, err), ""
	}
	q := s.request(r)
	q.Name = n
	switch v := s.guard.Check(r.Context(), q); v.Outcome {
	case guard.Pass:
	case guard.LastAnswer:
		return s.writeChecked(w, checked{Name: n, Available: !v.Taken, AnsweredBy: reference.Guard}), string(reference.Guard)
	default:
		return refuse(w, v), ""
	}
	a, err := s.service.Check(r.Context(), n)
	if err != nil {
		return fail(w, err), ""
	}
	s.guard.Answered(n, a.Taken)
	return s.writeChecked(w, checked{Name: n, Available: !a.Taken, AnsweredBy: a.By}), string(a.By)
}

// guardRegister answers a registration that the guard refuses, and returns 0 for
// others.
func (s *Server) guardRegister(w http.ResponseWriter, r *http.Request, body registration) (code int) {
	q := s.request(r)
	q.Name, _ = s.service.Names.Registrable(*body.Name) // what is wrong with it is for the service to say
	q.Attempt, q.Token, q.Answer = body.Attempt, body.Token, body.Answer
	if v := s.guard.Register(r.Context(), q); v.Outcome != guard.Pass {
		return refuse(w, v)
	}
	return 0
}

// learned tells the guard what a registration has shown.
func (s *Server) learned(raw string, err error) {
	if s.guard == nil || err != nil && !isTaken(err) {
		return
	}
	if n, err := s.service.Names.Registrable(raw); err == nil {
		s.guard.Answered(n, true)
	}
}

// attempt is the answer of POST /v1/register/attempt.
type attempt struct {
	Attempt   string     `json:"attempt"`
	Challenge *challenge `json:"challenge,omitempty"`
}

type challenge struct {
	Kind       string    `json:"kind"`
	Token      string    `json:"token"`
	Difficulty int       `json:"difficulty"`
	Expires    time.Time `json:"expires"`
}

func (s *Server) serveAttempt(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	a, v := s.guard.Begin(r.Context(), s.request(r))
	var code int
	if v.Outcome == guard.Pass {
		out := attempt{Attempt: a.ID}
		if c := a.Challenge; c != nil {
			out.Challenge = &challenge{Kind: c.Kind, Token: c.Token, Difficulty: c.Difficulty, Expires: c.Expires}
		}
		code = write(w, http.StatusCreated, out)
	} else {
		code = refuse(w, v)
	}
	s.attempt.done(code, "", time.Since(start))
}

// refuse answers with what the guard has to say.
func refuse(w http.ResponseWriter, v guard.Verdict) (code int) {
	code = http.StatusForbidden
	switch v.Outcome {
	case guard.Limited:
		code = http.StatusTooManyRequests
	case guard.Unavailable:
		code = http.StatusServiceUnavailable
	case guard.Pass, guard.Exempt, guard.LastAnswer, guard.ChallengeRequired, guard.Refused:
	default:
	}
	if code != http.StatusForbidden {
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(v.RetryAfter.Seconds())))))
	}
	return write(w, code, struct {
		Error string `json:"error"`
	}{v.Reason})
}
