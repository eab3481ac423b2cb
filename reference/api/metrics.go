package api

import (
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registry returns a registry with everything the checker tells Prometheus.
func (s *Server) registry() (*prometheus.Registry, error) {
	r := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		newCollector(s),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return r, nil
}

// collector reads the same counters as the diagnostic contract when Prometheus
// asks: there is one account of everything. Pool names follow redisprometheus,
// with what that package leaves out: the size of the pool and who waits.
type collector struct {
	server *Server
	all    []*prometheus.Desc

	requests, latency, answers, registrations, errors *prometheus.Desc

	bits, setBits, hashes, capacity, targetRate, added, generation, builtAt *prometheus.Desc

	redisPool                                               pool
	redisHit, redisMiss, redisStale                         *prometheus.Desc
	redisCommands, redisFailed, redisSeconds, redisLookups  *prometheus.Desc
	redisOwed                                               *prometheus.Desc
	shardPool                                               pool
	shardRequests, shardFailed, shardSeconds, localCacheLen *prometheus.Desc
	events                                                  eventDescs
	guard                                                   guardDescs
	layerLatency                                            *prometheus.Desc
}

// pool describes the metrics of a connection pool.
type pool struct {
	total, idle, size, pending, acquires, waits, waitSeconds, timeouts *prometheus.Desc
}

func newCollector(s *Server) *collector {
	c := &collector{server: s}
	d := func(name, help string, labels ...string) *prometheus.Desc {
		desc := prometheus.NewDesc("checker_"+name, help, labels, nil)
		c.all = append(c.all, desc)
		return desc
	}
	newPool := func(layer string, labels ...string) pool {
		return pool{
			total:       d(layer+"_pool_conn_total_current", "Connections in the pool, in use or idle.", labels...),
			idle:        d(layer+"_pool_conn_idle_current", "Idle connections in the pool.", labels...),
			size:        d(layer+"_pool_conn_max", "Connections the pool may hold.", labels...),
			pending:     d(layer+"_pool_pending_requests", "Requests that wait for a connection now.", labels...),
			acquires:    d(layer+"_pool_acquire_total", "Requests that got a connection.", labels...),
			waits:       d(layer+"_pool_wait_total", "Requests that had to wait for a connection.", labels...),
			waitSeconds: d(layer+"_pool_wait_seconds_total", "Time spent waiting for a connection.", labels...),
			timeouts:    d(layer+"_pool_timeout_total", "Requests that ended before they got a connection.", labels...),
		}
	}
	c.requests = d("http_requests_total", "Requests answered.", "endpoint", "code")
	c.latency = d("http_request_duration_seconds", "Time to answer a request.", "endpoint")
	c.answers = d("answers_total", "Checks by the layer that answered.", "layer")
	c.registrations = d("registrations_total", "Registrations by outcome.", "outcome")
	c.errors = d("errors_total", "Failures by layer.", "layer")
	c.bits = d("bloom_bits", "Size m of the filter in bits.")
	c.setBits = d("bloom_set_bits", "Bits of the filter that are set.")
	c.hashes = d("bloom_hashes", "Number k of hashes.")
	c.capacity = d("bloom_capacity", "Names the filter was sized for.")
	c.targetRate = d("bloom_target_rate", "False-positive rate the filter was sized for.")
	c.added = d("bloom_names_added", "Names added to this generation of the filter.", "source")
	c.generation = d("bloom_generation", "Number of the generation in use.")
	c.builtAt = d("bloom_built_timestamp_seconds", "When the generation in use was built.")
	c.localCacheLen = d("local_cache_names", "Names in the local cache.")
	c.redisPool = newPool("redis")
	c.redisHit = d("redis_pool_hit_total", "Commands that found an idle connection.")
	c.redisMiss = d("redis_pool_miss_total", "Commands that had to dial.")
	c.redisStale = d("redis_pool_conn_stale_total", "Connections removed from the pool.")
	c.redisCommands = d("redis_commands_total", "Commands sent to Redis.")
	c.redisFailed = d("redis_command_errors_total", "Commands that failed; a missing key is no failure.")
	c.redisSeconds = d("redis_command_seconds_total", "Time inside commands, waiting for a connection included.")
	c.redisLookups = d("redis_lookups_total", "Names asked of Redis by what it knew.", "result")
	c.redisOwed = d("redis_owed_names", "Names of whose registration or release Redis has not heard yet.", "change")
	c.shardPool = newPool("shard", "shard")
	c.shardRequests = d("shard_requests_total", "Look-ups and inserts.", "shard")
	c.shardFailed = d("shard_request_errors_total", "Look-ups and inserts that failed.", "shard")
	c.shardSeconds = d("shard_request_seconds_total", "Time inside look-ups and inserts.", "shard")
	c.events, c.guard = newEventDescs(d), newGuardDescs(d)
	c.layerLatency = d("answer_duration_seconds", "Time to answer a check by the layer that answered.", "layer")
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.all {
		out <- d
	}
}

// sink emits metrics. The descriptions and label counts are fixed above, so
// that building a metric cannot fail.
type sink chan<- prometheus.Metric

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// histogram takes counts that are not cumulative, one more than bounds.
func (s sink) histogram(d *prometheus.Desc, le []float64, counts []uint64, total float64, labels ...string) {
	cumulative, sum := make(map[float64]uint64, len(le)), uint64(0)
	for i, n := range counts {
		sum += n
		if i < len(le) {
			cumulative[le[i]] = sum
		}
	}
	s <- prometheus.MustNewConstHistogram(d, sum, total, cumulative, labels...)
}

func (s sink) pool(d pool, p poolDoc, labels ...string) {
	s.gauge(d.total, float64(p.InUse+p.Idle), labels...)
	s.gauge(d.idle, float64(p.Idle), labels...)
	s.gauge(d.size, float64(p.Size), labels...)
	s.gauge(d.pending, float64(p.Pending), labels...)
	s.counter(d.acquires, float64(p.Acquires), labels...)
	s.counter(d.waits, float64(p.Waits), labels...)
	s.counter(d.waitSeconds, p.WaitSeconds, labels...)
	s.counter(d.timeouts, float64(p.Timeouts), labels...)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := sink(out)
	c.collectRequests(s)
	c.collectBloom(s)
	c.collectRedis(s)
	c.collectEvents(s)
	c.collectGuard(s)
	c.collectLayers(s)
	for _, x := range c.server.shardsDoc().Shards {
		s.pool(c.shardPool, x.Pool, x.Shard)
		s.counter(c.shardRequests, float64(x.Requests), x.Shard)
		s.counter(c.shardFailed, float64(x.Errors), x.Shard)
		s.counter(c.shardSeconds, x.BusySeconds, x.Shard)
	}
	for layer, n := range c.server.errors.counts() {
		s.counter(c.errors, float64(n), string(layer))
	}
	s.gauge(c.localCacheLen, float64(c.server.service.Local.Len()))
}

func (c *collector) collectRequests(s sink) {
	check, register := c.server.check.read(), c.server.register.read()
	for _, r := range []reading{check, register} {
		for code, n := range r.codes {
			s.counter(c.requests, float64(n), r.endpoint, strconv.Itoa(code))
		}
		s.histogram(c.latency, r.le, r.counts, r.busy.Seconds(), r.endpoint)
	}
	for layer, n := range check.tags {
		s.counter(c.answers, float64(n), layer)
	}
	for outcome, n := range register.tags {
		s.counter(c.registrations, float64(n), outcome)
	}
}

func (c *collector) collectBloom(s sink) {
	f := c.server.service.Filter.Stats()
	s.gauge(c.bits, float64(f.Bits))
	s.gauge(c.setBits, float64(f.SetBits))
	s.gauge(c.hashes, float64(f.Hashes))
	s.gauge(c.capacity, float64(f.Params.Capacity))
	s.gauge(c.targetRate, f.Params.Rate)
	s.gauge(c.generation, float64(f.Generation))
	s.gauge(c.builtAt, float64(f.BuiltAt.UnixMilli())/1000)
	for source, n := range bySource(f) {
		s.gauge(c.added, float64(n), source) // begins again with every generation
	}
}

func (c *collector) collectRedis(s sink) {
	r := c.server.service.Redis.Stats()
	s.pool(c.redisPool, redisPool(r))
	s.counter(c.redisHit, float64(r.Pool.Hits))
	s.counter(c.redisMiss, float64(r.Pool.Misses))
	s.counter(c.redisStale, float64(r.Pool.Stale))
	s.counter(c.redisCommands, float64(r.Commands))
	s.counter(c.redisFailed, float64(r.Errors))
	s.counter(c.redisSeconds, r.Busy.Seconds())
	s.counter(c.redisLookups, float64(r.HitsTaken), "taken")
	s.counter(c.redisLookups, float64(r.HitsFree), "free")
	s.counter(c.redisLookups, float64(r.Misses), "miss")
	s.counter(c.redisLookups, float64(r.LookupErrors), "error")
	s.gauge(c.redisOwed, float64(r.Owed.Claims), "registration")
	s.gauge(c.redisOwed, float64(r.Owed.Releases), "release")
}
