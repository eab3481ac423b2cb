package event

import (
	"context"
	"fmt"
	"time"
)

const (
	// passTimeout bounds one look at a shard.
	passTimeout = 10 * time.Second
	// restPause is the shortest pause between two looks, so that events that come one by one are taken together: what a look
	// costs is nearly the same for one event and for fifty, and nobody waits for it.
	restPause = 100 * time.Millisecond
	// restShare is how many times longer a relay rests than it looked, for a look at a long outbox is dear and changes little,
	// and a consumer that yields than it worked.
	restShare = 15
	// purgeEvery is the pause between two looks for events whose retention is over.
	purgeEvery = time.Minute
)

// run looks at the shard when it is woken, at every tick, and on and on while there is something to do. A failure is
// followed by a pause that a Wake does not cut short, for what has failed must not be asked at every commit. After each
// look it rests for several times as long as the look took: a long outbox shall not keep a shard busy.
func (l *relayLane) run(ctx context.Context) {
	tick := time.NewTicker(l.o.Tick)
	defer tick.Stop()
	trouble := backoff{most: l.o.MaxBackoff}
	for ctx.Err() == nil {
		began := time.Now()
		more, err := l.pass(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil:
			l.count(func(s *RelayStats) { s.Failures++ })
			l.o.Failed(&LaneError{Shard: l.source.Name, Err: err})
			trouble.wait(ctx)
			continue
		}
		trouble.reset()
		pause(ctx, max(restPause, min(restShare*time.Since(began), l.o.Tick)))
		if more {
			continue
		}
		select {
		case <-l.wake:
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// pass brings outbox and stream together once, and says whether there is more to do at once. The outbox is looked at even
// when Redis is away, so that its lag is known.
func (l *relayLane) pass(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	epoch, inStream, redisErr := l.stream.ensure(ctx, l.o.Groups...)
	letters := 0
	if redisErr == nil {
		letters, redisErr = l.stream.letters(ctx)
	}
	limit := l.o.Window
	if redisErr == nil {
		limit = min(inStream+l.o.Batch, l.o.Window)
	}
	events, err := l.source.Outbox.Outbox(ctx, limit)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrOutbox, err)
	}
	l.count(func(s *RelayStats) {
		s.Unpublished, s.More, s.Oldest = len(events), len(events) == limit, time.Time{}
		if len(events) > 0 {
			s.Oldest = events[0].At
		}
		if redisErr == nil {
			s.InStream, s.DeadLetters = inStream, letters
		}
	})
	if redisErr != nil {
		return false, redisErr
	}
	added, err := l.add(ctx, epoch, events)
	if err != nil {
		return false, err
	}
	confirmed, err := l.confirm(ctx)
	if err != nil {
		return false, err
	}
	return added || confirmed, l.purge(ctx)
}

// add copies what is not in the stream, oldest first.
func (l *relayLane) add(ctx context.Context, epoch string, events []Event) (some bool, err error) {
	events, err = l.stream.missing(ctx, events)
	if err != nil {
		return false, err
	}
	for i := range events {
		events[i].Shard = l.source.Name
	}
	for len(events) > 0 {
		batch := events[:min(l.o.Batch, len(events))]
		if err := l.stream.add(ctx, epoch, batch); err != nil {
			return false, err
		}
		l.count(func(s *RelayStats) { s.Added += uint64(len(batch)); s.InStream += len(batch) })
		events, some = events[len(batch):], true
	}
	return some, nil
}

// confirm takes what all groups have acknowledged off the outbox, and only then out of the stream. If it is interrupted
// between the two, it is repeated.
func (l *relayLane) confirm(ctx context.Context) (some bool, err error) {
	groups, through, err := l.stream.groups(ctx, l.o.Groups)
	if err != nil {
		return false, err
	}
	l.count(func(s *RelayStats) { s.Groups = groups })
	if through == (entryID{}) {
		return false, nil
	}
	entries, err := l.stream.client.XRangeN(ctx, l.stream.key, "-", through.String(), int64(l.o.Batch)).Result()
	if err != nil {
		return false, failed(err)
	}
	if len(entries) == 0 {
		return false, nil
	}
	ids := make([]int64, 0, len(entries))
	for _, entry := range entries {
		text, _ := entry.Values["event"].(string)
		if e, err := decode(text); err == nil { // what others put there goes when it is read
			ids = append(ids, e.ID)
		}
	}
	if len(ids) > 0 {
		if err := l.source.Outbox.MarkPublished(ctx, ids); err != nil {
			return false, fmt.Errorf("%w: %w", ErrOutbox, err)
		}
	}
	if err := l.stream.remove(ctx, entries, ids); err != nil {
		return false, err
	}
	l.count(func(s *RelayStats) {
		s.Confirmed += uint64(len(ids))
		s.InStream = max(0, s.InStream-len(ids))
		s.Unpublished = max(0, s.Unpublished-len(ids))
		if s.Unpublished == 0 {
			s.Oldest = time.Time{}
		}
	})
	return true, nil
}

// purge deletes some of the events whose retention is over. When none are left it has done for a while.
func (l *relayLane) purge(ctx context.Context) error {
	now := time.Now()
	if now.Sub(l.purged) < purgeEvery {
		return nil
	}
	n, err := l.source.Outbox.Purge(ctx, now.Add(-l.o.Retention), l.o.Batch)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrOutbox, err)
	}
	if n < int64(l.o.Batch) {
		l.purged = now
	}
	return nil
}

func (l *relayLane) count(change func(*RelayStats)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stats)
}
