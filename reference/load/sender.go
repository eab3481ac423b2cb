package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// sender sends the requests of one worker.
type sender struct {
	clients []*http.Client // by address
	base    *url.URL
	timeout time.Duration
	tally   *tally
}

// errExpired is why the context of a request ends that has taken too long.
var errExpired = errors.New("no answer in time")

// serve sends what comes through the queue until that is closed.
func (s sender) serve(ctx context.Context, queue <-chan request) {
	for s.serveUntilTimeout(ctx, queue) {
	}
}

// serveUntilTimeout sends what comes through the queue under one context, until a request has taken too long. To cancel a
// context of its own after each answer would race with the connection's way back into the pool: a machine that is short of
// time would open a new connection again and again.
func (s sender) serveUntilTimeout(ctx context.Context, queue <-chan request) (more bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for r := range queue {
		timer := time.AfterFunc(s.timeout, func() { cancel(errExpired) })
		s.send(ctx, r)
		if !timer.Stop() {
			return true
		}
	}
	return false
}

// send sends one request and counts what comes back. What the end of the run cuts off is counted as dropped, for it says
// nothing about the checker.
func (s sender) send(ctx context.Context, r request) {
	status, err := s.do(ctx, r)
	if expired := errors.Is(context.Cause(ctx), errExpired); err != nil && ctx.Err() != nil && !expired {
		s.tally.dropped++
		return
	}
	s.tally.sent++
	s.tally.latency.record(time.Since(r.due))
	switch {
	case err != nil:
		s.tally.errors[reason(err)]++
	case r.register:
		s.tally.register[status]++
	default:
		s.tally.check[status]++
	}
}

// do returns the status of an answer that was read to its end, so that the connection can be used again.
func (s sender) do(ctx context.Context, r request) (status int, err error) {
	method, target, body := http.MethodGet, *s.base, io.Reader(nil)
	if r.register {
		document, err := json.Marshal(map[string]string{"name": r.name})
		if err != nil {
			return 0, err
		}
		method, body = http.MethodPost, bytes.NewReader(document)
		target.Path += "/v1/register"
	} else {
		target.Path += "/v1/check"
		target.RawQuery = "name=" + url.QueryEscape(r.name)
	}
	request, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return 0, err
	}
	if r.register {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.clients[r.from].Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	const most = 1 << 20
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, most)); err != nil {
		return 0, err
	}
	return response.StatusCode, nil
}

// reason sorts an error into few kinds.
func reason(err error) string {
	var netErr net.Error
	switch {
	case errors.Is(err, errExpired), errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	default:
		return "other"
	}
}
