package cache

import "github.com/redis/go-redis/v9"

// The other keys in Redis. No name begins with a colon.
const (
	newsKey  = "names:news"  // stream of what changed
	againKey = "names:again" // sorted set: names whose marker is deleted again, by when (ms)
	hotKey   = "names:hot"   // sorted set: names with a permanent marker, by until when (ms)
)

// newsLength is about how many news Redis keeps: more than half a minute of the
// busiest site.
const newsLength = 10_000

// What news say of a name.
const (
	newsTaken    = "taken"
	newsReleased = "released"
	newsKnown    = "known" // it was registered a while ago; for the filter only
	newsLost     = "lost"  // of no name: registrations were not told of
)

// scripts are run inside Redis, each as one step.
type scripts struct{ fill, claim, release, sweep, hot *redis.Script }

func newScripts() scripts {
	return scripts{
		// The entry; the lease, the value, its TTL.
		fill: redis.NewScript(`
			if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
			redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
			return 1`),
		// The news, entries; the value, the length of the news, then the name of each entry and its TTL.
		claim: redis.NewScript(`
			for i = 2, #KEYS do
				redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2 * i])
				redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'name', ARGV[2 * i - 1], 'is', '` + newsTaken + `')
			end
			return 1`),
		// The entry, the news, the second deletes, the hot names; the name, when to delete again, the length of the news.
		release: redis.NewScript(`
			redis.call('DEL', KEYS[1])
			redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'name', ARGV[1], 'is', '` + newsReleased + `')
			redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
			redis.call('ZREM', KEYS[4], ARGV[1])
			return 1`),
		// The second deletes, the news; the time, the prefix of entries, how many at a time, the length of the news.
		sweep: redis.NewScript(`
			local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
			for _, name in ipairs(due) do
				redis.call('DEL', ARGV[2] .. name)
				redis.call('ZREM', KEYS[1], name)
				redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'name', name, 'is', '` + newsReleased + `')
			end
			return #due`),
		// The hot names; the time, until when, the most, the TTL of a marker that is no longer hot, its jitter, the prefix of
		// entries, then names. Those that are hot stay, those that are no longer make room, then new ones come in.
		hot: redis.NewScript(`
			local hot, most, ttl, jitter, prefix = KEYS[1], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
			for i = 7, #ARGV do
				if redis.call('ZSCORE', hot, ARGV[i]) then redis.call('ZADD', hot, ARGV[2], ARGV[i]) end
			end
			for i, name in ipairs(redis.call('ZRANGEBYSCORE', hot, '-inf', ARGV[1])) do
				if redis.call('PTTL', prefix .. name) == -1 then
					redis.call('PEXPIRE', prefix .. name, ttl + i * 7919 % jitter)
				end
				redis.call('ZREM', hot, name)
			end
			for i = 7, #ARGV do
				local name = ARGV[i]
				if redis.call('GET', prefix .. name) == '` + valueTaken + `'
					and (redis.call('ZSCORE', hot, name) or redis.call('ZCARD', hot) < most) then
					redis.call('ZADD', hot, ARGV[2], name)
					redis.call('PERSIST', prefix .. name)
				end
			end
			return redis.call('ZCARD', hot)`),
	}
}
