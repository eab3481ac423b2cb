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
	client  *http.Client
	base    *url.URL
	timeout time.Duration
	tally   *tally
}

// send sends one request and counts what comes back. What the end of the run cut off is counted as dropped, for it says
// nothing about the checker.
func (s sender) send(ctx context.Context, r request) {
	if ctx.Err() != nil {
		s.tally.dropped++
		return
	}
	bounded, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	status, err := s.do(bounded, r)
	if ctx.Err() != nil && err != nil {
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
	response, err := s.client.Do(request)
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
	case errors.As(err, &netErr) && netErr.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	default:
		return "other"
	}
}
