package slacktest

import (
	"io"
	"maps"
	"net/http"
	"strings"
)

// Fault is what happens to one call instead of the usual.
type Fault struct {
	// Accept handles the call first as if nothing were wrong: the message is
	// there, but the answer is lost.
	Accept bool
	// Cut closes the connection without an answer; Hang never answers.
	Cut, Hang bool
	// Until holds the usual answer back until it is closed; nil does not.
	Until <-chan struct{}
	// Status, Header and Body are answered otherwise.
	Status int
	Header http.Header
	Body   string
}

// Fail refuses a call the way the Web API does: 200 with ok false.
func Fail(code string) Fault {
	return Fault{Status: http.StatusOK, Body: `{"ok":false,"error":"` + code + `"}`}
}

// JSON answers 200 with the given body.
func JSON(body string) Fault { return Fault{Status: http.StatusOK, Body: body} }

// Status answers with a status and a body of plain text, as a webhook does.
func Status(code int, body string) Fault {
	return Fault{Status: code, Header: http.Header{"Content-Type": {"text/plain"}}, Body: body}
}

// HTML answers 200 with a page, as a proxy in between does.
func HTML() Fault {
	return Fault{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<!DOCTYPE html><title>Sign in</title>"}
}

// RateLimited answers 429 with Retry-After as given, which may be nonsense; with
// none where missing.
func RateLimited(retryAfter string) Fault {
	return Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {retryAfter}}, Body: `{"ok":false,"error":"ratelimited"}`}
}

// RateLimitedSilently answers 429 without Retry-After.
func RateLimitedSilently() Fault {
	return Fault{Status: http.StatusTooManyRequests, Body: `{"ok":false,"error":"ratelimited"}`}
}

// CutBefore closes the connection before the call has had any effect.
func CutBefore() Fault { return Fault{Cut: true} }

// CutAfter closes the connection after the call has had its effect.
func CutAfter() Fault { return Fault{Cut: true, Accept: true} }

// HangBefore holds the call until the client gives up, without any effect.
func HangBefore() Fault { return Fault{Hang: true} }

// HangAfter holds the call until the client gives up, after its effect.
func HangAfter() Fault { return Fault{Hang: true, Accept: true} }

// Slow handles the call as usual, but does not answer before done is closed.
func Slow(done <-chan struct{}) Fault { return Fault{Until: done} }

// play answers r with the fault.
func (f Fault) play(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case f.Cut:
		panic(http.ErrAbortHandler) // net/http's way to close without an answer
	}
	maps.Copy(w.Header(), f.Header)
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(f.Status)
	_, _ = io.Copy(w, strings.NewReader(f.Body))
}

// next takes the next scripted fault of a method, or lets chance decide. s.mu is
// held.
func (s *Server) next(method string) (Fault, bool) {
	script := s.scripts[method]
	switch {
	case len(script) > 0:
		s.scripts[method] = script[1:]
		return script[0], true
	case s.haunted != nil:
		return s.haunted(method)
	}
	return Fault{}, false
}
