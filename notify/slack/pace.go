package slack

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/regpath/diagnose/notify"
)

// How often Slack may be called. Posting is limited to about one message a
// second and channel, with short bursts; editing to 50 a minute and workspace
// (tier 3). Source: docs.slack.dev, rate limits.
const (
	postEvery   = time.Second
	postBurst   = 3
	updateEvery = 60 * time.Second / 50
	updateBurst = 10
)

// turns are the paces of one bot.
type turns struct {
	every  time.Duration
	update *pace

	mu    sync.Mutex
	posts map[string]*pace // by channel
}

// newTurns paces posts to one in every so long; see BotConfig.PostEvery.
func newTurns(every time.Duration) *turns {
	t := &turns{every: every, posts: map[string]*pace{}}
	switch {
	case every < 0:
		t.every = 0
		t.update = newPace(0, updateBurst)
	case every == 0:
		t.every = postEvery
		fallthrough
	default:
		t.update = newPace(updateEvery, updateBurst)
	}
	return t
}

// post is the pace of a channel. Bots post to a few channels only.
func (t *turns) post(channel string) *pace {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.posts[channel]
	if p == nil {
		p = newPace(t.every, postBurst)
		t.posts[channel] = p
	}
	return p
}

// pace spreads calls over time. It is a bucket of tokens: one call takes one, and
// one comes back every so often. All but one are a reserve: who may take from it takes
// whatever there is; anybody else waits until the bucket is full and nobody who may is
// waiting, so that there is always something left for the next alert's first message.
type pace struct {
	every time.Duration // none when zero
	burst int

	mu     sync.Mutex
	tokens float64
	filled time.Time // when tokens was right
	// closed is until when Slack has asked to be left alone.
	closed time.Time
	// waiting is how many wait that may take from the reserve.
	waiting int
}

func newPace(every time.Duration, burst int) *pace {
	return &pace{every: every, burst: burst, tokens: float64(burst), filled: time.Now()}
}

// errNoTurn is why a call was not made: others went first until time was up.
var errNoTurn = errors.New("waiting for a turn, as the channel is busy")

// wait waits for the caller's turn; with reserve it may take from that. It fails, with
// a *notify.Error, when ctx ends or is bound to end before: then nothing was sent.
func (p *pace) wait(ctx context.Context, reserve bool) error {
	if reserve {
		p.mu.Lock()
		p.waiting++
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			p.waiting--
			p.mu.Unlock()
		}()
	}
	for {
		d := p.take(reserve)
		if d == 0 {
			return nil
		}
		turn := &notify.Error{Class: notify.Retry, RetryAfter: d, Err: errNoTurn}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
			return turn
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return turn
		}
	}
}

// take takes a token and returns zero, or says when to ask again.
func (p *pace) take(reserve bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if d := p.closed.Sub(now); d > 0 {
		return d
	}
	if p.every == 0 {
		return 0
	}
	p.tokens = min(float64(p.burst), p.tokens+float64(now.Sub(p.filled))/float64(p.every))
	p.filled = now
	need := 1.0
	if !reserve {
		need = float64(p.burst)
		if p.waiting > 0 {
			need++ // not before they have gone
		}
	}
	if p.tokens >= need {
		p.tokens--
		return 0
	}
	// At least a millisecond: the sum of fractions may fall short of the whole.
	return max(time.Duration((need-p.tokens)*float64(p.every)), time.Millisecond)
}

// heed keeps everybody back for as long as Slack asked to be left alone.
func (p *pace) heed(err error) {
	e, ok := errors.AsType[*notify.Error](err)
	if !ok || p.every == 0 || e.Class != notify.Retry || e.RetryAfter == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(e.RetryAfter); until.After(p.closed) {
		p.closed = until
	}
	p.tokens = min(p.tokens, 1)
}
