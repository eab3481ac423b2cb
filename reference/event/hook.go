package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// Hook tells a service over HTTP of every name that gets an owner, such as the one that creates profiles or the one that
// welcomes. It is safe for concurrent use.
type Hook struct {
	url    atomic.Pointer[string]
	client *http.Client
}

// NewHook prepares posts to a URL, each bounded by the timeout. An empty URL switches them off.
func NewHook(to string, timeout time.Duration) (*Hook, error) {
	h := &Hook{client: &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: timeout}).DialContext,
			MaxIdleConnsPerHost: 4,
			IdleConnTimeout:     time.Minute,
		},
	}}
	if _, err := h.SetURL(to); err != nil {
		return nil, err
	}
	return h, nil
}

// SetURL changes where posts go and returns where they went before. Both the URL and the error may be shown: the URL has
// no password in it, or is refused.
func (h *Hook) SetURL(to string) (from string, err error) {
	if to != "" {
		u, err := url.Parse(to)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			return "", errors.New("follow-up URL must be an http or https URL without credentials")
		}
	}
	if old := h.url.Swap(&to); old != nil {
		return *old, nil
	}
	return "", nil
}

// Handle is a [Handler]. A service that cannot be reached is [Unavailable]; one that answers with an error, or not in
// time, may do so because of this event. The header Idempotency-Key is the same each time an event is posted.
func (h *Hook) Handle(ctx context.Context, e Event) error {
	to := *h.url.Load()
	if to == "" || e.Type != NameClaimed {
		return nil
	}
	err := h.post(ctx, to, e)
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return Unavailable(err)
	}
	return err
}

// Close ends idle connections.
func (h *Hook) Close() { h.client.CloseIdleConnections() }

func (h *Hook) post(ctx context.Context, to string, e Event) error {
	body, err := json.Marshal(struct {
		Event  string    `json:"event"`
		Name   string    `json:"name"`
		UserID int64     `json:"user_id,string"`
		At     time.Time `json:"at"`
	}{e.Type, e.Name, e.UserID, e.At})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("build request: bad URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", strconv.Quote(e.Shard+"/"+strconv.FormatInt(e.ID, 10)))
	res, err := h.client.Do(req)
	if err != nil {
		if at := (*url.Error)(nil); errors.As(err, &at) {
			return at.Err // without the URL, which may hold a token
		}
		return err
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	if _, err := io.CopyN(io.Discard, res.Body, 4<<10); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read answer: %w", err)
	}
	if res.StatusCode >= 300 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}
