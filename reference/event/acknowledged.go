package event

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// errEpoch means that Redis lost the stream a moment ago. The next pass begins anew.
var errEpoch = errors.New("stream was lost meanwhile")

// GroupStats says how far a group is on one shard.
type GroupStats struct {
	Name string
	// Pending counts the events that were given to a consumer and not acknowledged: a batch of its at most.
	Pending int
	// Behind is how long the oldest event that the group has not acknowledged has been in the stream; 0 if there is none.
	Behind time.Duration
}

// groups tells how far each group of the stream is, and up to which entry, this one included, all have acknowledged. A
// group that is not among those that must be there, and that no consumer has asked for lately, is removed: its instance
// is gone for good.
func (s stream) groups(ctx context.Context, must []string) (all []GroupStats, through entryID, err error) {
	infos, err := s.client.XInfoGroups(ctx, s.key).Result()
	if err != nil {
		return nil, entryID{}, failed(err)
	}
	missing := make(map[string]bool, len(must))
	for _, g := range must {
		missing[g] = true
	}
	through = entryID{ms: 1<<64 - 1}
	for _, info := range infos {
		if !missing[info.Name] {
			seen, err := s.client.Exists(ctx, s.seen(info.Name)).Result()
			if err == nil && seen == 0 {
				err = s.client.XGroupDestroy(ctx, s.key, info.Name).Err()
			}
			if err != nil {
				return nil, entryID{}, failed(err)
			}
			if seen == 0 {
				continue
			}
		}
		delete(missing, info.Name)
		g, done, err := s.group(ctx, info)
		if err != nil {
			return nil, entryID{}, err
		}
		all = append(all, g)
		if done.compare(through) < 0 {
			through = done
		}
	}
	if len(missing) > 0 || len(all) == 0 {
		through = entryID{} // nobody has acknowledged anything for those who are not there yet
	}
	return all, through, nil
}

// group looks at one group: what lies before its first pending event is acknowledged, and so is everything that was
// delivered when nothing is pending. A delivery between the two looks only makes the answer too modest.
func (s stream) group(ctx context.Context, info redis.XInfoGroup) (GroupStats, entryID, error) {
	g := GroupStats{Name: info.Name, Pending: int(info.Pending)}
	done, err := parseEntryID(info.LastDeliveredID)
	if err != nil {
		return g, done, err
	}
	if info.Pending > 0 {
		pending, err := s.client.XPending(ctx, s.key, info.Name).Result()
		if err != nil {
			return g, done, failed(err)
		}
		if pending.Count > 0 {
			first, err := parseEntryID(pending.Lower)
			if err != nil {
				return g, done, err
			}
			done = first.before()
		}
	}
	open, err := s.client.XRangeN(ctx, s.key, done.after().String(), "+", 1).Result()
	if err != nil {
		return g, done, failed(err)
	}
	if len(open) > 0 {
		at, err := parseEntryID(open[0].ID)
		if err != nil {
			return g, done, err
		}
		g.Behind = max(0, time.Since(time.UnixMilli(int64(at.ms))))
	}
	return g, done, nil
}

// entryID is the id of an entry of a stream. They only grow.
type entryID struct{ ms, seq uint64 }

func parseEntryID(text string) (entryID, error) {
	ms, seq, ok := strings.Cut(text, "-")
	if !ok {
		seq = "0" // an id may be written without
	}
	m, err := strconv.ParseUint(ms, 10, 64)
	if err != nil {
		return entryID{}, failed(fmt.Errorf("entry id: %w", err))
	}
	s, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return entryID{}, failed(fmt.Errorf("entry id: %w", err))
	}
	return entryID{m, s}, nil
}

func (e entryID) String() string {
	return strconv.FormatUint(e.ms, 10) + "-" + strconv.FormatUint(e.seq, 10)
}

func (e entryID) compare(other entryID) int {
	return cmp.Or(cmp.Compare(e.ms, other.ms), cmp.Compare(e.seq, other.seq))
}

// before is the largest id below e, or e when there is none.
func (e entryID) before() entryID {
	switch {
	case e.seq > 0:
		return entryID{e.ms, e.seq - 1}
	case e.ms > 0:
		return entryID{e.ms - 1, 1<<64 - 1}
	}
	return e
}

// after is the smallest id above e.
func (e entryID) after() entryID {
	if e.seq == 1<<64-1 {
		return entryID{e.ms + 1, 0}
	}
	return entryID{e.ms, e.seq + 1}
}
