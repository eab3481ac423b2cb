// Package event tells the rest of the company about registrations. In this
// stage it is a bounded queue with a few workers that post to one follow-up
// service; a registration neither waits for it nor fails with it.
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
	"sync"
	"sync/atomic"
	"time"
)

// Claimed says that a name has got its owner.
type Claimed struct {
	Name   string    `json:"name"`
	UserID int64     `json:"user_id,string"`
	At     time.Time `json:"at"`
}

// What is wrong when a follow-up is lost.
var (
	ErrQueueFull = errors.New("follow-up queue is full")
	ErrClosed    = errors.New("follow-up queue is closed")
)

// Options say where follow-ups go.
type Options struct {
	// URL is posted to; empty switches follow-ups off.
	URL string
	// Workers is the number of requests at a time; 0 means 4.
	Workers int
	// Queue is the number of follow-ups that may wait; 0 means 1000.
	Queue int
	// Timeout bounds one request; 0 means 1 s.
	Timeout time.Duration
	// Failed is called with every follow-up that was lost and why. It must not
	// block.
	Failed func(error)
}

// FollowUps delivers events to the follow-up service, each at most once. It is
// safe for concurrent use.
type FollowUps struct {
	url    atomic.Pointer[string]
	client *http.Client
	failed func(error)

	mu     sync.RWMutex // guards queue against being closed while it is sent to
	closed bool
	queue  chan Claimed
	ended  sync.WaitGroup
}

// NewFollowUps starts the workers. The caller must Close it.
func NewFollowUps(o Options) (*FollowUps, error) {
	if o.Workers == 0 {
		o.Workers = 4
	}
	if o.Queue == 0 {
		o.Queue = 1000
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Workers < 0 || o.Queue < 0 || o.Timeout < 0 || o.Failed == nil {
		return nil, errors.New("follow-ups need positive limits and somewhere to report failures")
	}
	f := &FollowUps{
		queue:  make(chan Claimed, o.Queue),
		failed: o.Failed,
		client: &http.Client{
			Timeout: o.Timeout,
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: o.Timeout}).DialContext,
				MaxIdleConnsPerHost: o.Workers,
				IdleConnTimeout:     time.Minute,
			},
		},
	}
	if _, err := f.SetURL(o.URL); err != nil {
		return nil, err
	}
	for range o.Workers {
		f.ended.Go(f.work)
	}
	return f, nil
}

// SetURL changes where follow-ups go and returns where they went before. Both
// the URL and the error may be shown: the URL has no password in it, or is
// refused.
func (f *FollowUps) SetURL(to string) (from string, err error) {
	if to != "" {
		u, err := url.Parse(to)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			return "", errors.New("follow-up URL must be an http or https URL without credentials")
		}
	}
	if old := f.url.Swap(&to); old != nil {
		return *old, nil
	}
	return "", nil
}

// Notify queues c and returns at once.
func (f *FollowUps) Notify(c Claimed) {
	if *f.url.Load() == "" {
		return
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		f.failed(ErrClosed)
		return
	}
	select {
	case f.queue <- c:
	default:
		f.failed(ErrQueueFull)
	}
}

// Close delivers what is queued, each within its timeout, and stops the
// workers.
func (f *FollowUps) Close() {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.queue)
	}
	f.mu.Unlock()
	f.ended.Wait()
	f.client.CloseIdleConnections()
}

func (f *FollowUps) work() {
	for c := range f.queue {
		if err := f.post(c); err != nil {
			f.failed(err)
		}
	}
}

func (f *FollowUps) post(c Claimed) error {
	body, err := json.Marshal(struct {
		Event string `json:"event"`
		Claimed
	}{"USERNAME_CLAIMED", c})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	// The client's timeout bounds the request; it belongs to no caller.
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, *f.url.Load(), bytes.NewReader(body))
	if err != nil {
		return errors.New("build request: bad URL")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := f.client.Do(req)
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
