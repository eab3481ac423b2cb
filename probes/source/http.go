package source

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
)

const (
	// maxBody is the largest answer that is read. The largest document of the
	// contract, 1000 errors, is about 300 KB.
	maxBody = 4 << 20
	// maxConns is the number of connections to the service. One is enough: the
	// steps that run at the same time share one request.
	maxConns = 1
	// httpTimeout bounds one request. The documents answer from memory, and
	// the one that asks the shards is bounded to 1 s by the contract.
	httpTimeout = 2 * time.Second
)

// HTTPOptions say how to reach a service that serves the diagnostic contract.
type HTTPOptions struct {
	// URL is the base URL, such as "http://127.0.0.1:8080".
	URL string
	// Token is sent as a bearer token unless it is empty.
	Token Secret
	// TLS is used for https; nil means the system's defaults.
	TLS *tls.Config
	// Timeout bounds one request; zero means 2 s.
	Timeout time.Duration
}

// HTTP reads the documents of the diagnostic contract from one service, over
// one connection, in snapshots that whoever asks at the same time shares. It is
// safe for concurrent use. A kept connection that turns out to be broken is
// replaced once, by the transport, and counted; nothing else is repeated.
type HTTP struct {
	base      *url.URL
	token     Secret
	timeout   time.Duration
	client    *http.Client
	snapshots snapshots
	turn      chan struct{} // holds one token: whoever has it may send
	dead      circuit       // no connection to be had
	mu        sync.Mutex
	hung      map[string]*circuit // no answer, by path
}

// NewHTTP returns a source for the service at o.URL. It does no I/O.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	base, err := parseURL(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the service's URL: %w", err)
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = httpTimeout
	}
	return &HTTP{
		base: base, token: o.Token, timeout: timeout,
		turn: make(chan struct{}, maxConns), hung: make(map[string]*circuit),
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
				TLSClientConfig:        o.TLS,
				MaxConnsPerHost:        maxConns,
				MaxIdleConnsPerHost:    maxConns,
				DisableCompression:     true, // the cap on the body is a cap on the wire
				MaxResponseHeaderBytes: 64 << 10,
			},
			// A redirect would take the token, and the agent, elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Name names the source for a human.
func (h *HTTP) Name() string { return "checker " + h.base.String() }

// Open opens a connection by reading the changes, so that the connection
// stands before it is needed. A service without that document is fine.
func (h *HTTP) Open(ctx context.Context) error {
	var doc Changes
	if _, err := h.do(ctx, new(probes.Cost), http.MethodGet, PathChanges, nil, nil, &doc); err != nil && !errors.Is(err, ErrAbsent) {
		return err
	}
	return nil
}

// Close closes idle connections.
func (h *HTTP) Close() { h.client.CloseIdleConnections() }

// Get reads the document at path into the struct behind into and adds to cost
// what that took. A document that is there but not as the contract says is an
// error that tells what is wrong with it. Without a query the document comes
// from a snapshot that is not older than [Fresh], as with [HTTP.Read].
func (h *HTTP) Get(ctx context.Context, cost *probes.Cost, path string, query url.Values, into any) error {
	var err error
	if len(query) == 0 {
		_, err = h.Read(ctx, cost, path, Fresh, into)
	} else {
		_, err = h.do(ctx, cost, http.MethodGet, path, query, nil, into)
	}
	return err
}

// Post sends body as JSON and reads the answer like Get.
func (h *HTTP) Post(ctx context.Context, cost *probes.Cost, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	_, err = h.do(ctx, cost, http.MethodPost, path, nil, raw, into)
	return err
}

func (h *HTTP) do(ctx context.Context, cost *probes.Cost, method, path string, query url.Values, body []byte, into any) (took time.Duration, err error) {
	slow := h.circuit(path)
	if err := h.dead.reason(); err != nil {
		return 0, h.silent(err)
	}
	if err := slow.check(); err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	answer, took, err := h.send(ctx, cost, method, path, query, body)
	// A hung document says nothing about the others, which do not wait for the
	// same thing; a refused connection does.
	if errors.Is(err, ErrHung) {
		slow.note(err)
	} else if ctx.Err() == nil {
		h.dead.note(err)
	}
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrUnreachable) {
		return took, h.silent(err)
	}
	if err == nil {
		err = decode(answer, into)
	}
	if err != nil {
		return took, fmt.Errorf("%s %s: %w", method, path, err)
	}
	slow.note(nil)
	return took, nil
}

// silent says that the service as a whole does not answer, in the same words
// whatever it was asked for, so that a report can say it once.
func (h *HTTP) silent(err error) error {
	return fmt.Errorf("the service does not answer (%s: %w)", h.base, err)
}

func (h *HTTP) circuit(path string) *circuit {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.hung[path]
	if c == nil {
		c = new(circuit)
		h.hung[path] = c
	}
	return c
}

// send makes one request, when it is its turn, and returns the body of a 200 and
// how long the service took. The wait counts neither for that nor against the
// timeout: a request that waits for a slow one is not slow itself.
func (h *HTTP) send(run context.Context, cost *probes.Cost, method, path string, query url.Values, body []byte) ([]byte, time.Duration, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-run.Done():
	}
	if err := run.Err(); err != nil {
		return nil, 0, interrupted(err)
	}
	start := time.Now()
	answer, err := h.exchange(run, cost, method, path, query, body)
	return answer, time.Since(start), err
}

// exchange makes one request at once.
func (h *HTTP) exchange(run context.Context, cost *probes.Cost, method, path string, query url.Values, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(run, h.timeout)
	defer cancel()
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			connected = true
			cost.HTTPRequests++
			cost.Bytes += int64(len(body))
		},
	})
	target := h.base.JoinPath(path)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "diagnose")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if h.token != "" {
		req.Header.Set("Authorization", "Bearer "+string(h.token))
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, h.failed(run, err, connected)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	cost.Bytes += int64(len(answer))
	if status := statusReason(resp); status != nil {
		return nil, status
	}
	if len(answer) > maxBody {
		return nil, fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("the answer is cut off")
	}
	if err != nil {
		return nil, h.failed(run, err, true)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		return nil, errors.New(htmlReason(answer))
	}
	return answer, nil
}

// failed classifies an error of the client, without its URL.
func (h *HTTP) failed(ctx context.Context, err error, connected bool) error {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if f := classify(ctx, err, connected, h.timeout); f != nil {
		return f
	}
	if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
		return fail(ErrAnswered, "the certificate is not trusted: "+untrusted.Err.Error())
	}
	// What is left are complaints of net/http about the answer, which quote it.
	return fail(ErrAnswered, "the answer is not proper HTTP")
}

// statusReason returns nil for 200 and says otherwise what the status means
// here. It does not quote the answer, which may hold anything.
func statusReason(resp *http.Response) error {
	status := fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotFound:
		return fail(ErrAbsent, status+": the service does not serve this document")
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fail(ErrDenied, status+": the service wants another token")
	case code >= 300 && code < 400:
		to := "elsewhere"
		if loc, err := resp.Location(); err == nil && loc.Host != "" {
			to = "to " + loc.Host
		}
		return fail(ErrAnswered, status+": redirected "+to+", which is not followed (a login page or a proxy?)")
	}
	return fail(ErrAnswered, status)
}
