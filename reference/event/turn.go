package event

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// verdict is what becomes of an event after a try. The values are those of the script of next.
type verdict string

const (
	done  verdict = "done"
	again verdict = "again" // the same event, one try less
	wait  verdict = "wait"  // the same event, as if it had not been tried
	dead  verdict = "dead"
)

// outcome is a verdict on a turn; the zero outcome is none.
type outcome struct {
	verdict verdict
	turn    turn
	reason  string // of death
}

// state is what a group has for a consumer.
type state string

const (
	given state = "given" // an event to handle
	busy  state = "busy"  // nothing while another consumer handles an event
	idle  state = "idle"  // nothing at all
)

// turn is the answer to a consumer that asks for an event.
type turn struct {
	state    state
	entry    string // of the event; when idle, the last one of the stream
	event    string
	delivery int // the how-manieth it is, 1 for the first
}

// next tells Redis what came of the turn before and asks for the next event, both at once. Redis gives a group no second
// event before the first is settled: that is what keeps the order, over all consumers, without a lock. A consumer is given
// first what it has itself, which is what it failed at or what it left when it died; then what another one has been silent
// about for too long; then something new. A verdict of a consumer that lost its event meanwhile changes nothing.
func (c *Consumer) next(ctx context.Context, s stream, last outcome) (turn, error) {
	const script = `
		local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
		local verdict, entry = ARGV[5], ARGV[6]
		redis.call('SET', KEYS[3], consumer, 'PX', ARGV[4])
		if verdict ~= '' then
			local owner = redis.call('XPENDING', stream, group, entry, entry, 1)[1]
			if owner and owner[2] == consumer then
				if verdict == 'dead' then
					redis.call('XADD', KEYS[2], '*', 'group', group, 'event', ARGV[8], 'deliveries', ARGV[7], 'error', ARGV[9])
				end
				if verdict == 'dead' or verdict == 'done' then
					redis.call('XACK', stream, group, entry)
				elseif verdict == 'wait' then
					redis.call('XCLAIM', stream, group, consumer, 0, entry, 'RETRYCOUNT', ARGV[7] - 1, 'JUSTID')
				end
			end
		end
		local function first(read)
			return read and read[1] and read[1][2] and read[1][2][1]
		end
		local got = first(redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', stream, '0'))
		if not got and redis.call('XPENDING', stream, group)[1] > 0 then
			got = redis.call('XAUTOCLAIM', stream, group, consumer, ARGV[3], '0', 'COUNT', 1)[2][1]
			if not got then
				return {'busy', '', '', 0}
			end
		end
		if not got then
			got = first(redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', 1, 'STREAMS', stream, '>'))
		end
		if not got then
			local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
			return {'idle', newest and newest[1] or '0-0', '', 0}
		end
		local event = ''
		for i = 1, got[2] and #got[2] or 0, 2 do
			if got[2][i] == 'event' then event = got[2][i + 1] end
		end
		return {'given', got[1], event, redis.call('XPENDING', stream, group, got[1], got[1], 1)[1][4]}`
	got, err := redis.NewScript(script).Run(ctx, c.o.Redis, []string{s.key, s.dead, s.seen(c.o.Group)},
		c.o.Group, c.o.Name, c.o.ClaimAfter.Milliseconds(), c.o.GroupTTL.Milliseconds(),
		string(last.verdict), last.turn.entry, last.turn.delivery, last.turn.event, last.reason).Slice()
	if err != nil {
		return turn{}, failed(err)
	}
	var t turn
	if len(got) == 4 {
		word, _ := got[0].(string)
		t.state = state(word)
		t.entry, _ = got[1].(string)
		t.event, _ = got[2].(string)
		n, _ := got[3].(int64)
		t.delivery = int(n)
	}
	if t.state == "" || (t.state != busy && t.entry == "") {
		return turn{}, failed(fmt.Errorf("unexpected answer %v", got))
	}
	return t, nil
}
