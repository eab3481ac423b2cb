package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/notify"
)

const (
	// defaultTimeout is for one call; slack-go's and Go's default is none.
	defaultTimeout = 10 * time.Second
	// maxAnswer bounds what is read of an answer. A page of history with 200
	// messages of 40 kB is the largest one expected.
	maxAnswer = 16 << 20
)

// client calls the Web API: one attempt each, no redirects, no retries.
type client struct {
	base  string // ends in "/"
	token notify.Secret
	caller
}

// caller is how a request is made and its answer is read.
type caller struct {
	http    *http.Client
	timeout time.Duration
	now     func() time.Time
}

// newCaller returns a caller on top of h, which may be nil.
func newCaller(h *http.Client, timeout time.Duration) caller {
	var c http.Client
	if h != nil {
		c = *h
	}
	// A redirect turns the POST into a GET, whose 200 would pass for success.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return caller{http: &c, timeout: timeout, now: time.Now}
}

// answer is what came back, read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do posts body and reads the answer. Its errors never show the URL, which may
// be a secret. creates says whether repeating the request could say things
// twice: then a failure after the first byte was sent is of unknown outcome.
func (c caller) do(ctx context.Context, method, target, contentType, auth string, body []byte, creates bool) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	})
	fail := func(err error) (answer, error) {
		out := &notify.Error{Class: notify.Retry, Err: fmt.Errorf("%s: %w", method, withoutURL(err))}
		if sent.Load() {
			out.Class = unlessSafe(creates)
		}
		return answer{}, out
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Content-Type", contentType)
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fail(err)
	}
	if len(b) > maxAnswer {
		return fail(errors.New("answer too long"))
	}
	return answer{resp.StatusCode, resp.Header, b}, nil
}

// withoutURL drops the layer of err that spells the URL out.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// call calls a method of the Web API and decodes a success into out. creates is
// as in do. Every error is a *notify.Error.
func (c client) call(ctx context.Context, method string, form url.Values, creates bool, out any) error {
	a, err := c.do(ctx, method, c.base+method, "application/x-www-form-urlencoded; charset=utf-8",
		"Bearer "+c.token.Reveal(), []byte(form.Encode()), creates)
	if err != nil {
		return err
	}
	// Only what decides is decoded here, leniently: everything else in an
	// answer has been seen in shapes that break a strict decoder.
	var head struct {
		OK       bool            `json:"ok"`
		Error    string          `json:"error"`
		Needed   string          `json:"needed"`
		Metadata json.RawMessage `json:"response_metadata"`
		Errors   json.RawMessage `json:"errors"`
	}
	isJSON := json.NewDecoder(bytes.NewReader(a.body)).Decode(&head) == nil
	switch {
	case isJSON && !head.OK && head.Error != "":
		e := &apiError{method: method, code: notify.Line(head.Error, 80), detail: detail(head.Needed, head.Metadata, head.Errors)}
		err := refused(e, a.header, c.now())
		if err.Class == notify.Unknown {
			err.Class = unlessSafe(creates)
		}
		return err
	case !isJSON || a.status != http.StatusOK || !head.OK:
		err := byStatus(method, a.status, string(a.body), a.header, creates, c.now())
		if isHard(err) && a.status != http.StatusRequestEntityTooLarge {
			// Slack names what it refuses: this is somebody else's answer, and may pass.
			err.Class, err.Hint = unlessSafe(creates), hintProxy
		}
		return err
	}
	if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(out); err != nil {
		return &notify.Error{Class: unlessSafe(creates), Err: fmt.Errorf("%s: decode answer: %w", method, err)}
	}
	return nil
}

// detail gathers what Slack says beyond the name of an error: the scope it
// misses, and the messages that point at the offending block.
func detail(needed string, metadata, errs json.RawMessage) string {
	var parts []string
	if needed != "" {
		parts = append(parts, "needs "+needed)
	}
	var m struct {
		Messages []string `json:"messages"`
	}
	if json.Unmarshal(metadata, &m) == nil {
		parts = append(parts, m.Messages...)
	}
	if len(errs) > 0 && string(errs) != "null" {
		parts = append(parts, string(errs))
	}
	return notify.Line(strings.Join(parts, "; "), 300)
}
