package event

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// stream is what Redis holds of one shard. All its keys lie in one slot of a cluster.
type stream struct {
	client redis.UniversalClient
	key    string // the stream; each entry has one field, "event"
	in     string // a hash: the id of each event in the stream → the id of its entry, and the stream's epoch
	dead   string // the dead-letter stream of all groups
}

func newStream(client redis.UniversalClient, shard string) stream {
	key := "events:{" + shard + "}"
	return stream{client: client, key: key, in: key + ":in", dead: key + ":dead"}
}

// seen is there as long as a consumer of the group has been there lately.
func (s stream) seen(group string) string { return s.key + ":seen:" + group }

// ensure makes the stream and the groups that are not there yet, each from the stream's beginning. When Redis has lost the
// stream or a part of it, all begins anew in another epoch: everything that is not acknowledged is added again, in order.
func (s stream) ensure(ctx context.Context, groups ...string) (epoch string, events int, err error) {
	const script = `
		if redis.call('XLEN', KEYS[1]) + 1 < redis.call('HLEN', KEYS[2]) then
			redis.call('DEL', KEYS[1], KEYS[2])
		end
		redis.call('HSETNX', KEYS[2], 'epoch', ARGV[1])
		for i = 2, #ARGV do
			redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[i], '0', 'MKSTREAM')
		end
		return {redis.call('HGET', KEYS[2], 'epoch'), redis.call('HLEN', KEYS[2]) - 1}`
	args := []any{strconv.FormatInt(time.Now().UnixNano(), 36)}
	for _, g := range groups {
		args = append(args, g)
	}
	got, err := redis.NewScript(script).Run(ctx, s.client, []string{s.key, s.in}, args...).Slice()
	if err != nil {
		return "", 0, failed(err)
	}
	if len(got) == 2 {
		epoch, _ = got[0].(string)
		n, ok := got[1].(int64)
		if ok && epoch != "" {
			return epoch, int(n), nil
		}
	}
	return "", 0, failed(fmt.Errorf("unexpected answer %v", got))
}

// missing answers the events that are not in the stream.
func (s stream) missing(ctx context.Context, events []Event) ([]Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = strconv.FormatInt(e.ID, 10)
	}
	entries, err := s.client.HMGet(ctx, s.in, ids...).Result()
	if err != nil {
		return nil, failed(err)
	}
	var out []Event
	for i, entry := range entries {
		if entry == nil {
			out = append(out, events[i])
		}
	}
	return out, nil
}

// add appends those of the events that are not in the stream, whoever else does the same. It refuses in another epoch,
// for then earlier events have to be added first.
func (s stream) add(ctx context.Context, epoch string, events []Event) error {
	const script = `
		if redis.call('HGET', KEYS[2], 'epoch') ~= ARGV[1] then
			return 0
		end
		for i = 2, #ARGV, 2 do
			if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 0 then
				redis.call('HSET', KEYS[2], ARGV[i], redis.call('XADD', KEYS[1], '*', 'event', ARGV[i + 1]))
			end
		end
		return 1`
	args := make([]any, 1, 1+2*len(events))
	args[0] = epoch
	for _, e := range events {
		text, err := encode(e)
		if err != nil {
			return err
		}
		args = append(args, e.ID, text)
	}
	same, err := redis.NewScript(script).Run(ctx, s.client, []string{s.key, s.in}, args...).Bool()
	switch {
	case err != nil:
		return failed(err)
	case !same:
		return failed(errEpoch)
	}
	return nil
}

// remove takes out entries and forgets that their events were in the stream.
func (s stream) remove(ctx context.Context, entries []redis.XMessage, ids []int64) error {
	fields, keys := make([]string, len(ids)), make([]string, len(entries))
	for i, id := range ids {
		fields[i] = strconv.FormatInt(id, 10)
	}
	for i, e := range entries {
		keys[i] = e.ID
	}
	_, err := s.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XDel(ctx, s.key, keys...)
		if len(fields) > 0 {
			p.HDel(ctx, s.in, fields...)
		}
		return nil
	})
	return failed(err)
}

// failed says that it was Redis that failed.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrRedis, err)
}
