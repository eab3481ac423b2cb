package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults of GateOptions.
const (
	DefaultWindow    = time.Second
	DefaultThreshold = 10
	DefaultMarkerTTL = time.Minute
	DefaultTimeout   = 250 * time.Millisecond
	DefaultPrefix    = "guard:"
)

// Redis is what the gate asks of Redis, GETDEL of version 6.2 included. A
// redis.UniversalClient is one; its commands must go to the primary, which
// go-redis does with those that write.
type Redis interface {
	redis.Scripter
	GetDel(ctx context.Context, key string) *redis.StringCmd
}

// Marker is what the gate knows about an attempt.
type Marker uint8

// The markers.
const (
	NoMarker   Marker = iota // never asked, too long ago, or consumed
	Clear                    // may register
	Challenged               // may register once a challenge is solved
)

// GateOptions are the options of a Gate. All instances must share them.
type GateOptions struct {
	Window    time.Duration // whole milliseconds; 0 means DefaultWindow
	Threshold int           // attempts per window without a challenge; 0 means DefaultThreshold
	MarkerTTL time.Duration // whole milliseconds; 0 means DefaultMarkerTTL
	// Timeout bounds each question to Redis; 0 means DefaultTimeout.
	Timeout time.Duration
	// Prefix begins every key; empty means DefaultPrefix. The keys share a hash
	// tag, so that a cluster keeps them together.
	Prefix string
}

// Gate decides which attempts to register need a challenge, for all instances
// together: when more than Threshold come within a window, one in every
// Threshold + 1. It slows bots down and locks nobody out. It is safe for
// concurrent use.
type Gate struct {
	redis  Redis
	script *redis.Script
	o      GateOptions
	keys   struct{ count, start, attempt string }
	forced atomic.Bool
}

const (
	markerClear      = "no"
	markerChallenged = "yes"
)

// gateScript is the whole decision, atomic. The time is the server's, read in
// the script, because the instances' clocks differ; replicas are sent the
// effects, not the script. A window that begins in the future was begun by a
// primary with another clock and is over.
const gateScript = `
local count, start, attempt = KEYS[1], KEYS[2], KEYS[3]
local forced, window, threshold, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local answer = 'no'
if forced == '1' then
  answer = 'yes'
else
  local t = redis.call('TIME')
  local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
  local began = tonumber(redis.call('GET', start) or '')
  if not began or now < began or now - began >= window then
    redis.call('SET', start, string.format('%.0f', now))
    redis.call('SET', count, '0')
  end
  if redis.call('INCR', count) > threshold then
    redis.call('SET', count, '0')
    answer = 'yes'
  end
end
redis.call('SET', attempt, answer, 'PX', ttl)
return answer
`

// NewGate returns a Gate on the Redis given, without asking it anything.
func NewGate(client Redis, o GateOptions) (*Gate, error) {
	o = o.withDefaults()
	switch {
	case client == nil:
		return nil, errors.New("redis is missing")
	case o.Threshold < 0 || o.Threshold > 1<<30:
		return nil, fmt.Errorf("threshold must lie between 1 and %d, got %d", 1<<30, o.Threshold)
	case o.Timeout < 0:
		return nil, fmt.Errorf("timeout must not be negative, got %s", o.Timeout)
	}
	for name, d := range map[string]time.Duration{"window": o.Window, "life of a marker": o.MarkerTTL} {
		if d < time.Millisecond || d%time.Millisecond != 0 {
			return nil, fmt.Errorf("%s must be whole milliseconds, got %s", name, d)
		}
	}
	g := &Gate{redis: client, script: redis.NewScript(gateScript), o: o}
	g.keys.count = o.Prefix + "{gate}:count"
	g.keys.start = o.Prefix + "{gate}:start"
	g.keys.attempt = o.Prefix + "{gate}:attempt:"
	return g, nil
}

func (o GateOptions) withDefaults() GateOptions {
	if o.Window == 0 {
		o.Window = DefaultWindow
	}
	if o.Threshold == 0 {
		o.Threshold = DefaultThreshold
	}
	if o.MarkerTTL == 0 {
		o.MarkerTTL = DefaultMarkerTTL
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	return o
}

// SetForced makes this instance challenge every attempt, or ends that. It
// returns what was set before.
func (g *Gate) SetForced(on bool) (before bool) { return g.forced.Swap(on) }

// Ask counts an attempt, marks it and returns its marker, Clear or Challenged.
// It does not stop when ctx is cancelled: whoever hangs up must not get past
// the gate by that.
func (g *Gate) Ask(ctx context.Context, attempt string) (Marker, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.Timeout)
	defer cancel()
	forced := 0
	if g.forced.Load() {
		forced = 1
	}
	answer, err := g.script.Run(ctx, g.redis, []string{g.keys.count, g.keys.start, g.keys.attempt + attempt},
		forced, g.o.Window.Milliseconds(), g.o.Threshold, g.o.MarkerTTL.Milliseconds()).Text()
	if err != nil {
		return NoMarker, fmt.Errorf("ask captcha gate: %w", err)
	}
	return parseMarker(answer)
}

// Consume returns the marker of an attempt and removes it: the first to ask gets
// it, over all instances. It does not stop when ctx is cancelled.
func (g *Gate) Consume(ctx context.Context, attempt string) (Marker, error) {
	if !attemptLike(attempt) {
		return NoMarker, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.o.Timeout)
	defer cancel()
	answer, err := g.redis.GetDel(ctx, g.keys.attempt+attempt).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return NoMarker, nil
	case err != nil:
		return NoMarker, fmt.Errorf("consume marker of the captcha gate: %w", err)
	}
	return parseMarker(answer)
}

func parseMarker(s string) (Marker, error) {
	switch s {
	case markerClear:
		return Clear, nil
	case markerChallenged:
		return Challenged, nil
	}
	return NoMarker, errors.New("captcha gate: marker is neither yes nor no")
}

// attemptBytes is the length of what crypto/rand.Text returns.
const attemptBytes = 26

// attemptLike says whether s can be an attempt that Guard.Begin opened. Others
// need no question to Redis.
func attemptLike(s string) bool {
	if len(s) != attemptBytes {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// askCheck opens an attempt at the gate.
type askCheck struct {
	gate *Gate
}

// Check implements Checker. ChallengeRequired means that the attempt is open and
// needs a challenge.
func (c askCheck) Check(ctx context.Context, r Request) (Verdict, error) {
	marker, err := c.gate.Ask(ctx, r.Attempt)
	if err == nil && marker == Challenged {
		return Verdict{Outcome: ChallengeRequired, Reason: "many register at the moment: solve the challenge first"}, nil
	}
	return Verdict{}, err
}

// gateCheck lets an attempt through once. It relies on captchaCheck having
// verified the token of those that have one.
type gateCheck struct {
	gate *Gate
}

// Check implements Checker.
func (c gateCheck) Check(ctx context.Context, r Request) (Verdict, error) {
	marker, err := c.gate.Consume(ctx, r.Attempt)
	switch {
	case err != nil:
		return Verdict{}, err
	case marker == NoMarker:
		return Verdict{Outcome: Refused, Reason: "there is no such attempt, or it was used or is too old: begin a new one"}, nil
	case marker == Challenged && r.Token == "":
		return Verdict{Outcome: ChallengeRequired, Reason: "the challenge of this attempt was not solved: begin a new one"}, nil
	}
	return Verdict{}, nil
}
