package event

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// verdict is what becomes of an event after a try. The values are those of the script of next.
type verdict string

const (
	none  verdict = "" // it was cut short
	done  verdict = "done"
	again verdict = "again" // the same event, one try less
	wait  verdict = "wait"  // the same event, as if it had not been tried
	dead  verdict = "dead"
)

// entry is an event that a consumer was given.
type entry struct {
	id       string // in the stream
	event    string
	delivery int // the how-manieth it is, 1 for the first
}

// outcome is what came of a turn; the zero outcome is none.
type outcome struct {
	done []entry
	// tried is the event after those, if it was not done, with the verdict and the reason of its death.
	tried   entry
	verdict verdict
	reason  string
	rest    []entry // were not tried
}

// state is what a group has for a consumer.
type state string

const (
	given state = "given" // events to handle
	busy  state = "busy"  // nothing while another consumer handles events
	idle  state = "idle"  // nothing at all
)

// turn is the answer to a consumer that asks for events.
type turn struct {
	state   state
	newest  string // the last entry of the stream, when idle
	entries []entry
}

// next tells Redis what came of the turn before and asks for up to batch events, both at once. Redis gives a group no event
// before all that were given are settled: that is what keeps the order, over all consumers, without a lock. A consumer is
// given first what it has itself, which is what it failed at or what it left when it died; then what another one has been
// silent about for too long; then what is new. The first two come one by one, for one of them may be what kills. A verdict
// of a consumer that lost its event meanwhile changes nothing.
func (c *Consumer) next(ctx context.Context, s stream, last outcome, batch int) (turn, error) {
	const script = `
		local stream, group, consumer = KEYS[1], ARGV[1], ARGV[2]
		local verdict, entry = ARGV[6], ARGV[7]
		redis.call('SET', KEYS[3], consumer, 'PX', ARGV[4])
		local function mine(entry)
			local pending = redis.call('XPENDING', stream, group, entry, entry, 1)[1]
			return pending and pending[2] == consumer
		end
		for i = 12, #ARGV do
			if mine(ARGV[i]) then
				if i - 12 < tonumber(ARGV[11]) then
					redis.call('XACK', stream, group, ARGV[i])
				else
					redis.call('XCLAIM', stream, group, consumer, 0, ARGV[i], 'RETRYCOUNT', 0, 'JUSTID')
				end
			end
		end
		if verdict ~= '' and mine(entry) then
			if verdict == 'dead' then
				redis.call('XADD', KEYS[2], '*', 'group', group, 'event', ARGV[9], 'deliveries', ARGV[8], 'error', ARGV[10])
				redis.call('XACK', stream, group, entry)
			elseif verdict == 'wait' then
				redis.call('XCLAIM', stream, group, consumer, 0, entry, 'RETRYCOUNT', ARGV[8] - 1, 'JUSTID')
			end
		end
		if ARGV[5] == '0' then
			return {'idle', '0-0'}
		end
		local got, first = {}, redis.call('XPENDING', stream, group, '-', '+', 1)[1]
		if first then
			if first[2] == consumer or first[3] >= tonumber(ARGV[3]) then
				got = redis.call('XCLAIM', stream, group, consumer, 0, first[1])
			end
			if not got[1] then
				return {'busy', ''}
			end
		else
			local new = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', ARGV[5], 'STREAMS', stream, '>')
			got = new and new[1] and new[1][2] or {}
		end
		if not got[1] then
			local newest = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
			return {'idle', newest and newest[1] or '0-0'}
		end
		local answer = {'given', ''}
		for _, e in ipairs(got) do
			local event, deliveries = '', 1
			for i = 1, e[2] and #e[2] or 0, 2 do
				if e[2][i] == 'event' then event = e[2][i + 1] end
			end
			if first then
				deliveries = redis.call('XPENDING', stream, group, e[1], e[1], 1)[1][4]
			end
			answer[#answer + 1] = e[1]
			answer[#answer + 1] = event
			answer[#answer + 1] = deliveries
		end
		return answer`
	args := make([]any, 0, 11+len(last.done)+len(last.rest))
	args = append(args, c.o.Group, c.o.Name, c.o.ClaimAfter.Milliseconds(), c.o.GroupTTL.Milliseconds(), batch,
		string(last.verdict), last.tried.id, last.tried.delivery, last.tried.event, last.reason, len(last.done))
	for _, entries := range [][]entry{last.done, last.rest} {
		for _, e := range entries {
			args = append(args, e.id)
		}
	}
	got, err := redis.NewScript(script).Run(ctx, c.o.Redis, []string{s.key, s.dead, s.seen(c.o.Group)}, args...).Slice()
	if err != nil {
		return turn{}, failed(err)
	}
	return readTurn(got)
}

// readTurn reads the answer of the script of next: the state, the newest entry, then id, event and number of delivery of
// each event.
func readTurn(got []any) (t turn, err error) {
	if len(got) >= 2 && len(got)%3 == 2 {
		word, _ := got[0].(string)
		t.state = state(word)
		t.newest, _ = got[1].(string)
		for i := 2; i < len(got); i += 3 {
			var e entry
			e.id, _ = got[i].(string)
			e.event, _ = got[i+1].(string)
			n, _ := got[i+2].(int64)
			e.delivery = int(n)
			t.entries = append(t.entries, e)
		}
	}
	if t.state == "" || (t.state == given) != (len(t.entries) > 0) {
		return turn{}, failed(fmt.Errorf("unexpected answer %v", got))
	}
	return t, nil
}
