package api

import (
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/shard"
)

// The documents of the diagnostic contract, field by field as in CONTRACT.md.

type bloomDoc struct {
	Now           time.Time         `json:"now"`
	StartedAt     time.Time         `json:"started_at"`
	M             uint64            `json:"m"`
	K             uint64            `json:"k"`
	Capacity      uint64            `json:"capacity"`
	TargetRate    float64           `json:"target_rate"`
	SetBits       uint64            `json:"set_bits"`
	NamesAdded    uint64            `json:"names_added"`
	AddsBySource  map[string]uint64 `json:"adds_by_source"`
	Registrations uint64            `json:"registrations"`
	Generation    uint64            `json:"generation"`
	BuiltAt       time.Time         `json:"built_at"`
	// Left out while they are not known.
	GrowthPerSecond   *float64 `json:"growth_per_second,omitempty"`
	TimeToFullSeconds *float64 `json:"time_to_full_seconds,omitempty"`
}

func (s *Server) bloomDoc() bloomDoc {
	f := s.service.Filter.Stats()
	doc := bloomDoc{
		Now: time.Now(), StartedAt: s.startedAt,
		M: f.Bits, K: f.Hashes, Capacity: f.Params.Capacity, TargetRate: f.Params.Rate, SetBits: f.SetBits,
		NamesAdded: f.NamesAdded(), AddsBySource: bySource(f),
		Registrations: f.Registrations, Generation: f.Generation, BuiltAt: f.BuiltAt,
	}
	if f.Growth.Known {
		doc.GrowthPerSecond = &f.Growth.PerSecond
	}
	if f.Growth.TimeToFullKnown {
		seconds := f.Growth.TimeToFull.Seconds()
		doc.TimeToFullSeconds = &seconds
	}
	return doc
}

func bySource(f bloom.Stats) map[string]uint64 {
	out := make(map[string]uint64, len(f.Added))
	for i, n := range f.Added {
		out[bloom.Source(i).String()] = n
	}
	return out
}

type testDoc struct {
	Now        time.Time `json:"now"`
	Generation uint64    `json:"generation"`
	Tested     int       `json:"tested"`
	Distinct   int       `json:"distinct"`
	Invalid    int       `json:"invalid"`
	Maybe      []int     `json:"maybe"`
}

type verifyDoc struct {
	Now        time.Time        `json:"now"`
	Generation uint64           `json:"generation"`
	Sampled    int              `json:"sampled"`
	Missing    int              `json:"missing"`
	Shards     []verifyShardDoc `json:"shards"`
	Latest     struct {
		Sampled int `json:"sampled"`
		Missing int `json:"missing"`
	} `json:"latest"`
	Groups []verifyGroupDoc `json:"groups"`
}

type verifyGroupDoc struct {
	By         string `json:"by"`
	Group      string `json:"group"`
	Sampled    int    `json:"sampled"`
	Missing    int    `json:"missing"`
	KnownAfter int    `json:"known_after"`
}

// verifyShardDoc leaves out the counts of a shard that could not be asked.
type verifyShardDoc struct {
	Shard   string `json:"shard"`
	Sampled *int   `json:"sampled,omitempty"`
	Missing *int   `json:"missing,omitempty"`
	Error   string `json:"error,omitempty"`
}

type poolDoc struct {
	Size        int     `json:"size"`
	InUse       int     `json:"in_use"`
	Idle        int     `json:"idle"`
	Pending     int     `json:"pending"`
	Acquires    uint64  `json:"acquires"`
	Waits       uint64  `json:"waits"`
	WaitSeconds float64 `json:"wait_seconds"`
	Timeouts    uint64  `json:"timeouts"`
	// Left out where it is not counted.
	Dials *uint64 `json:"dials,omitempty"`
}

type redisDoc struct {
	Now         time.Time         `json:"now"`
	StartedAt   time.Time         `json:"started_at"`
	Address     string            `json:"address"`
	ClientName  string            `json:"client_name"`
	Pool        poolDoc           `json:"pool"`
	Commands    uint64            `json:"commands"`
	Errors      uint64            `json:"errors"`
	BusySeconds float64           `json:"busy_seconds"`
	Lookups     uint64            `json:"lookups"`
	Hits        map[string]uint64 `json:"hits"`
	Misses      uint64            `json:"misses"`
}

func (s *Server) redisDoc() redisDoc {
	r := s.service.Redis.Stats()
	return redisDoc{
		Now: time.Now(), StartedAt: s.startedAt, Address: r.Address, ClientName: r.Name,
		Pool:     redisPool(r),
		Commands: r.Commands, Errors: r.Errors, BusySeconds: r.Busy.Seconds(),
		Lookups: r.Lookups(), Hits: map[string]uint64{"taken": r.HitsTaken, "free": r.HitsFree}, Misses: r.Misses,
	}
}

func redisPool(r cache.RedisStats) poolDoc {
	p := r.Pool
	return poolDoc{
		Size: p.Size, InUse: p.InUse, Idle: p.Idle, Pending: p.Pending,
		Acquires: p.Acquires, Waits: p.Waits, WaitSeconds: p.WaitTime.Seconds(), Timeouts: p.Timeouts, Dials: &p.Dials,
	}
}

type shardsDoc struct {
	Now           time.Time  `json:"now"`
	StartedAt     time.Time  `json:"started_at"`
	WindowSeconds float64    `json:"window_seconds"`
	Shards        []shardDoc `json:"shards"`
}

type shardDoc struct {
	Shard       string     `json:"shard"`
	Address     string     `json:"address,omitempty"`
	Requests    uint64     `json:"requests"`
	Errors      uint64     `json:"errors"`
	BusySeconds float64    `json:"busy_seconds"`
	Pool        poolDoc    `json:"pool"`
	TopKeys     topKeysDoc `json:"top_keys"`
	// Replica is left out where look-ups go to the shard itself.
	Replica *replicaDoc `json:"replica,omitempty"`
}

type replicaDoc struct {
	Address string `json:"address,omitempty"`
	Lookups uint64 `json:"lookups"`
}

type topKeysDoc struct {
	Since    time.Time `json:"since"`
	Total    uint64    `json:"total"`
	Counters int       `json:"counters"`
	Keys     []keyDoc  `json:"keys"`
}

type keyDoc struct {
	Key   string `json:"key"`
	Count uint64 `json:"count"`
	Error uint64 `json:"error"`
}

func (s *Server) shardsDoc() shardsDoc {
	doc := shardsDoc{Now: time.Now(), StartedAt: s.startedAt, WindowSeconds: shard.KeyWindow.Seconds(), Shards: []shardDoc{}}
	for _, x := range s.service.Shards.Stats() {
		keys := []keyDoc{}
		for _, k := range x.TopKeys.Keys {
			keys = append(keys, keyDoc{Key: k.Key, Count: k.Count, Error: k.Error})
		}
		doc.Shards = append(doc.Shards, shardDoc{
			Shard: x.Shard, Address: x.Address, Requests: x.Requests, Errors: x.Errors, BusySeconds: x.Busy.Seconds(),
			Pool: poolDoc{
				Size: x.Pool.Size, InUse: x.Pool.InUse, Idle: x.Pool.Idle, Pending: x.Pool.Pending,
				Acquires: x.Pool.Acquires, Waits: x.Pool.Waits, WaitSeconds: x.Pool.WaitTime.Seconds(), Timeouts: x.Pool.Timeouts,
			},
			TopKeys: topKeysDoc{Since: x.TopKeys.Since, Total: x.TopKeys.Total, Counters: x.TopKeys.Counters, Keys: keys},
			Replica: newReplicaDoc(x.Replica),
		})
	}
	return doc
}

func newReplicaDoc(r *shard.ReplicaStats) *replicaDoc {
	if r == nil {
		return nil
	}
	return &replicaDoc{Address: r.Address, Lookups: r.Lookups}
}

type errorsDoc struct {
	Now       time.Time `json:"now"`
	StartedAt time.Time `json:"started_at"`
	Capacity  int       `json:"capacity"`
	Recorded  uint64    `json:"recorded"`
	// Gone is what is not kept any more, by layer.
	Gone   map[reference.Layer]goneDoc `json:"gone,omitempty"`
	Errors []errorDoc                  `json:"errors"`
}

type goneDoc struct {
	Count     uint64    `json:"count"`
	KeptSince time.Time `json:"kept_since"`
}

type errorDoc struct {
	At      time.Time       `json:"at"`
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Layer   reference.Layer `json:"layer"`
	Target  string          `json:"target"`
	Code    string          `json:"code"`
}

type requestsDoc struct {
	Now       time.Time     `json:"now"`
	StartedAt time.Time     `json:"started_at"`
	Endpoints []endpointDoc `json:"endpoints"`
}

type endpointDoc struct {
	Endpoint    string            `json:"endpoint"`
	Requests    uint64            `json:"requests"`
	Errors      uint64            `json:"errors"`
	BusySeconds float64           `json:"busy_seconds"`
	AnsweredBy  map[string]uint64 `json:"answered_by,omitempty"`
	Outcomes    map[string]uint64 `json:"outcomes,omitempty"`
	Latency     latencyDoc        `json:"latency"`
}

type latencyDoc struct {
	LE     []float64 `json:"le"`
	Counts []uint64  `json:"counts"`
}

func (s *Server) requestsDoc() requestsDoc {
	doc := requestsDoc{Now: time.Now(), StartedAt: s.startedAt}
	check, register := s.check.read(), s.register.read()
	for _, r := range []reading{check, register} {
		doc.Endpoints = append(doc.Endpoints, endpointDoc{
			Endpoint: r.endpoint, Requests: r.requests, Errors: r.errors, BusySeconds: r.busy.Seconds(),
			Latency: latencyDoc{LE: r.le, Counts: r.counts},
		})
	}
	doc.Endpoints[0].AnsweredBy, doc.Endpoints[1].Outcomes = check.tags, register.tags
	return doc
}

type changesDoc struct {
	Now     time.Time `json:"now"`
	Build   buildDoc  `json:"build"`
	Changes []Change  `json:"changes"`
}

type buildDoc struct {
	Version   string    `json:"version"`
	Revision  string    `json:"revision,omitempty"`
	StartedAt time.Time `json:"started_at"`
}
