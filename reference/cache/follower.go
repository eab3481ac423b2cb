package cache

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// MaxStale is how long a local cache keeps anything while the news do not
	// come.
	MaxStale = 5 * time.Second
	// newsWait is how long Redis lets a reader wait for news, newsGrace how much
	// longer an answer may take before the news count as cut off.
	newsWait  = time.Second
	newsGrace = time.Second
	// newsBatch is how many news are read at a time.
	newsBatch = 1000
	// reconnectAfter is the pause between two attempts to reach Redis.
	reconnectAfter = 200 * time.Millisecond
)

// Follower reads what changed on every instance and applies it to the local
// cache of this one. When the news break off it lets the local cache keep
// nothing for longer than [MaxStale], and when they come again it begins with
// an empty one. It has a connection of its own, outside the pool.
type Follower struct {
	Redis *Redis
	Local *Local
	// Taken, if any, is told of every registration on any instance, this one
	// included; more than once perhaps, and not of those whose news got lost
	// with Redis. It is for the filter.
	Taken func(name string)
	// Lost, if any, is told that an instance could not tell of all its
	// registrations: only the shards know them.
	Lost func()
	// Connected, if any, is told each time the news begin to come.
	Connected func()
	// Failed, if any, is told when the news break off, once each time.
	Failed func(error)

	last newsID // of the newest news read; zero before
}

// Run follows the news until ctx ends, and returns within a second or two.
func (f *Follower) Run(ctx context.Context) {
	var purged time.Time
	cut := false
	for ctx.Err() == nil {
		err := f.follow(ctx, func() {
			cut = false
			if f.Connected != nil {
				f.Connected()
			}
		})
		if ctx.Err() != nil {
			return
		}
		if !cut || time.Since(purged) >= MaxStale-reconnectAfter {
			f.Local.Purge()
			purged = time.Now()
		}
		if !cut && f.Failed != nil {
			f.Failed(fmt.Errorf("follow news: %w", err))
		}
		cut = true
		pause(ctx, reconnectAfter)
	}
}

// follow connects, and applies news until something fails.
func (f *Follower) follow(ctx context.Context, connected func()) error {
	options := f.Redis.Options()
	options.PoolSize = 1
	options.ClientName += "-news"
	client := options.client(nil)
	defer client.Close() //nolint:errcheck // nothing is left to lose
	// One connection and no other: a client would dial again in silence, perhaps
	// to a Redis that has restarted and lost the news in between.
	conn := client.Conn()
	defer conn.Close() //nolint:errcheck // nothing is left to lose
	if err := f.begin(ctx, conn); err != nil {
		return err
	}
	// From here on whatever changes will be read, so that what is remembered
	// from here on will be mended.
	f.Local.Purge()
	connected()
	for {
		if err := ctx.Err(); err != nil { // a read that waits is not told
			return err
		}
		if f.Redis.Options().Address != options.Address {
			return errors.New("redis has moved")
		}
		if err := f.read(ctx, conn); err != nil {
			return err
		}
	}
}

// begin finds the place to read from: behind the news read before or, the first
// time, behind all news. Where the newest is older than what was read before,
// Redis has lost its memory and numbers from an earlier clock.
func (f *Follower) begin(ctx context.Context, conn *redis.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, newsGrace)
	defer cancel()
	newest, err := conn.XRevRangeN(ctx, newsKey, "+", "-", 1).Result()
	if err != nil {
		return err
	}
	var top newsID
	if len(newest) > 0 {
		if top, err = parseNewsID(newest[0].ID); err != nil {
			return err
		}
	}
	switch {
	case f.last == newsID{}:
		f.last = top
	case top.before(f.last):
		f.last = newsID{}
	}
	return nil
}

// read waits for news and applies them.
func (f *Follower) read(ctx context.Context, conn *redis.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, newsWait+newsGrace)
	defer cancel()
	streams, err := conn.XRead(ctx, &redis.XReadArgs{
		Streams: []string{newsKey, f.last.String()}, Count: newsBatch, Block: newsWait,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil // no news
	}
	if err != nil {
		return err
	}
	for _, s := range streams {
		for _, m := range s.Messages {
			if f.last, err = parseNewsID(m.ID); err != nil {
				return err
			}
			f.apply(m.Values)
		}
	}
	return nil
}

// apply ignores what it does not understand: a later version may say more.
func (f *Follower) apply(news map[string]any) {
	if news["is"] == newsLost {
		if f.Lost != nil {
			f.Lost()
		}
		return
	}
	name, _ := news["name"].(string)
	if name == "" {
		return
	}
	switch news["is"] {
	case newsTaken:
		f.Local.SetTaken(name)
		f.known(name)
	case newsKnown:
		f.known(name)
	case newsReleased:
		f.Local.Forget(name)
	}
}

func (f *Follower) known(name string) {
	if f.Taken != nil {
		f.Taken(name)
	}
}

// newsID is the id of an entry of a stream: a time in milliseconds and a number.
type newsID struct{ millis, number uint64 }

func parseNewsID(s string) (newsID, error) {
	millis, number, ok := strings.Cut(s, "-")
	var id newsID
	var err error
	if id.millis, err = strconv.ParseUint(millis, 10, 64); ok && err == nil {
		id.number, err = strconv.ParseUint(number, 10, 64)
	}
	if !ok || err != nil {
		return newsID{}, fmt.Errorf("id of news is %q", s)
	}
	return id, nil
}

func (n newsID) before(o newsID) bool {
	return n.millis < o.millis || n.millis == o.millis && n.number < o.number
}

// String is the id as Redis writes it.
func (n newsID) String() string {
	return strconv.FormatUint(n.millis, 10) + "-" + strconv.FormatUint(n.number, 10)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
