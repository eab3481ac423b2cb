// Package slacktest is a strict fake Slack for tests: the chat methods,
// conversations.history and .replies, auth.test and incoming webhooks. It
// enforces the limits Slack enforces, with Slack's names for the errors, and
// records every message with its edits.
//
// Where Slack's own behaviour is not documented the fake takes the stricter
// reading, so that what passes here passes there. What Slack would accept to a
// reader's harm (a live mention out of foreign text, a control character) is
// accepted too, and recorded in Violations.
//
// Sources: docs.slack.dev, reference of the methods and blocks; the checks in
// Slack's Python and Node SDKs; slackapi/bolt-js#2509 for the total.
package slacktest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The identities the fake knows.
const (
	// Token is the bot token that is accepted.
	Token = "xoxb-0000-fake-bot-token"
	// ChannelID and ChannelName are of the channel that is there from the start.
	ChannelID   = "C0DIAGNOSE"
	ChannelName = "incidents"
	// BotUser is who messages posted with Token are from.
	BotUser = "U0DIAGNOSE"
	// webhookPath is where the incoming webhook of ChannelID listens.
	webhookPath = "/services/T0FAKE/B0FAKE/fakeWebhookSecret"
)

// Server is a fake Slack. The zero value is not usable: call New or Start.
// It is safe for concurrent use.
type Server struct {
	url string

	mu         sync.Mutex
	now        func() time.Time
	lastTS     int64 // in microseconds
	channels   map[string]*channel
	messages   []*Message // in the order of posting
	whispers   []Whisper
	calls      []Call
	violations []string
	scripts    map[string][]Fault
	haunted    func(method string) (Fault, bool) // nil for nobody
	interval   time.Duration
	burst      int
	free       map[string]time.Time // by channel, see pace
	lastPost   map[string]time.Time // by channel
	changed    chan struct{}        // closed and replaced at every change
}

// channel is a place to post to.
type channel struct {
	id, name string
	archived bool
	member   bool
}

var _ http.Handler = (*Server)(nil)

// New returns a fake without a listener, to be served as an http.Handler.
func New() *Server {
	s := &Server{
		now:      time.Now,
		channels: make(map[string]*channel),
		scripts:  make(map[string][]Fault),
		free:     make(map[string]time.Time),
		lastPost: make(map[string]time.Time),
		changed:  make(chan struct{}),
	}
	s.channels[ChannelID] = &channel{id: ChannelID, name: ChannelName, member: true}
	return s
}

// TB is the part of testing.TB that Start needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// Start serves a new fake until the test ends.
func Start(tb TB) *Server {
	tb.Helper()
	s, stop, err := Serve(context.Background())
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(stop)
	return s
}

// Serve serves a new fake on a free port of the loopback interface until stop is
// called.
func Serve(ctx context.Context) (s *Server, stop func(), err error) {
	s = New()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen: %w", err)
	}
	s.url = "http://" + l.Addr().String()
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	return s, func() {
		_ = server.Close()
		<-done
	}, nil
}

// APIURL is the root of the Web API of a fake made by Start or Serve.
func (s *Server) APIURL() string { return s.url + "/api/" }

// WebhookURL is the incoming webhook of ChannelID of a fake made by Start or Serve.
func (s *Server) WebhookURL() string { return s.url + webhookPath }

// AddChannel adds a channel. A bot that is not a member of a private channel
// does not find it; that is what member false means here.
func (s *Server) AddChannel(id, name string, member bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.channels[id] = &channel{id: id, name: name, member: member}
}

// Archive archives a channel.
func (s *Server) Archive(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.channels[id]; c != nil {
		c.archived = true
	}
}

// Delete removes a message, as a user may; its replies stay.
func (s *Server) Delete(channel, ts string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.message(channel, ts); m != nil {
		m.Deleted = true
		s.signal()
	}
}

// Limit enforces one posted message per interval and channel, as Slack does with
// a second. Zero switches it off, which is how a fake starts.
func (s *Server) Limit(interval time.Duration) { s.LimitBurst(interval, 1) }

// LimitBurst is Limit with short bursts of so many messages, which Slack allows
// without saying how many.
func (s *Server) LimitBurst(interval time.Duration, burst int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interval, s.burst = interval, burst
	clear(s.free)
	for id, at := range s.lastPost {
		s.free[id] = at.Add(interval) // what was posted before counts
	}
}

// Script sets what happens to the next calls of a method ("chat.postMessage",
// "webhook"), one Fault each, in order, after those set before.
func (s *Server) Script(method string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[method] = append(s.scripts[method], faults...)
}

// Haunt has every call that no script is for decided by chance: its fault is
// what befalls returns, if that is true. Calls of it do not overlap.
func (s *Server) Haunt(befalls func(method string) (Fault, bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.haunted = befalls
}

// signal wakes whoever waits for a change. s.mu is held.
func (s *Server) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change: a message posted,
// edited or deleted, a call answered.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// stamp returns the next ts: unique, with six digits, as Slack's.
func (s *Server) stamp() string {
	s.lastTS = max(s.lastTS+1, s.now().UnixMicro())
	return fmt.Sprintf("%d.%06d", s.lastTS/1e6, s.lastTS%1e6)
}

// message returns the message with the given place that has not been deleted.
func (s *Server) message(channel, ts string) *Message {
	for _, m := range s.messages {
		if m.Channel == channel && m.TS == ts && !m.Deleted {
			return m
		}
	}
	return nil
}

// byName returns the channel with the given ID or, if names are good enough, the
// given name with or without "#".
func (s *Server) byName(ref string, names bool) *channel {
	if c := s.channels[ref]; c != nil {
		return c
	}
	for _, c := range s.channels {
		if names && c.name == strings.TrimPrefix(ref, "#") {
			return c
		}
	}
	return nil
}
