package source

import (
	"fmt"
	"strings"
	"time"

	"github.com/regpath/diagnose/probes"
)

// The documents of the diagnostic contract, as far as the probes read them.
// Whatever a service leaves out is unknown here, not 0.

// Time is a time that may be unknown. The zero Time is unknown.
type Time struct {
	at    time.Time
	known bool
}

// At returns a known Time.
func At(t time.Time) Time { return Time{at: t, known: true} }

// Get returns the time and whether it is known.
func (t Time) Get() (time.Time, bool) { return t.at, t.known }

// Since returns the seconds from t to now, unknown when either is.
func (t Time) Since(now Time, field string) probes.Number {
	if !t.known || !now.known {
		return probes.Unknown(field + " or now is left out")
	}
	return probes.Known(now.at.Sub(t.at).Seconds())
}

// Text returns the time as a string, empty when unknown.
func (t Time) Text() string {
	if !t.known {
		return ""
	}
	return t.at.UTC().Format(time.RFC3339Nano)
}

// UnmarshalJSON takes an RFC 3339 time; anything else leaves the time unknown.
func (t *Time) UnmarshalJSON(b []byte) error {
	*t = Time{}
	at, err := time.Parse(time.RFC3339, strings.Trim(string(b), `"`))
	if err == nil && at.Year() >= 1 && !at.IsZero() {
		*t = At(at)
	}
	return nil
}

// pathDocuments is where the documents of the contract are.
const pathDocuments = "/debug/diagnose/"

// Paths of the contract.
const (
	PathSnapshot    = pathDocuments + "snapshot"
	PathBloom       = "/debug/diagnose/bloom"
	PathBloomTest   = "/debug/diagnose/bloom/test"
	PathBloomVerify = "/debug/diagnose/bloom/verify"
	PathRedis       = "/debug/diagnose/redis"
	PathShards      = "/debug/diagnose/shards"
	PathErrors      = "/debug/diagnose/errors"
	PathChanges     = "/debug/diagnose/changes"
	PathRoute       = "/debug/diagnose/route"
	PathLatency     = "/debug/diagnose/latency"
	PathTraffic     = "/debug/diagnose/traffic"
	PathClock       = "/debug/diagnose/clock"
	PathConsistency = "/debug/diagnose/consistency/sample"
)

// Bloom is GET /debug/diagnose/bloom.
type Bloom struct {
	Now          Time          `json:"now"`
	M            probes.Number `json:"m"`
	K            probes.Number `json:"k"`
	Capacity     probes.Number `json:"capacity"`
	TargetRate   probes.Number `json:"target_rate"`
	SetBits      probes.Number `json:"set_bits"`
	NamesAdded   probes.Number `json:"names_added"`
	AddsBySource struct {
		Build    probes.Number `json:"build"`
		Register probes.Number `json:"register"`
		Query    probes.Number `json:"query"`
	} `json:"adds_by_source"`
	Registrations probes.Number `json:"registrations"`
	Generation    probes.Number `json:"generation"`
	BuiltAt       Time          `json:"built_at"`
}

// BloomTestRequest is the body of POST /debug/diagnose/bloom/test.
type BloomTestRequest struct {
	Names []string `json:"names"`
}

// BloomTest is the answer to POST /debug/diagnose/bloom/test.
type BloomTest struct {
	Generation probes.Number `json:"generation"`
	Tested     probes.Number `json:"tested"`
	Distinct   probes.Number `json:"distinct"`
	Invalid    probes.Number `json:"invalid"`
	// Maybe is nil when it is left out, which is not the same as empty.
	Maybe []int `json:"maybe"`
}

// BloomVerify is GET /debug/diagnose/bloom/verify.
type BloomVerify struct {
	Sampled probes.Number `json:"sampled"`
	Missing probes.Number `json:"missing"`
	Shards  []struct {
		Shard   string        `json:"shard"`
		Sampled probes.Number `json:"sampled"`
		Missing probes.Number `json:"missing"`
		Error   string        `json:"error"`
	} `json:"shards"`
	Latest struct {
		Sampled probes.Number `json:"sampled"`
		Missing probes.Number `json:"missing"`
	} `json:"latest"`
	// Groups is nil when it is left out, which is not the same as empty.
	Groups []NameGroup `json:"groups"`
}

// NameGroup is how the filter knows the existing names of one kind.
type NameGroup struct {
	By         string        `json:"by"`
	Group      string        `json:"group"`
	Sampled    probes.Number `json:"sampled"`
	Missing    probes.Number `json:"missing"`
	KnownAfter probes.Number `json:"known_after"`
}

// Pool is the state of a connection pool of the service.
type Pool struct {
	Size        probes.Number `json:"size"`
	InUse       probes.Number `json:"in_use"`
	Idle        probes.Number `json:"idle"`
	Pending     probes.Number `json:"pending"`
	Acquires    probes.Number `json:"acquires"`
	Waits       probes.Number `json:"waits"`
	WaitSeconds probes.Number `json:"wait_seconds"`
	Timeouts    probes.Number `json:"timeouts"`
	Dials       probes.Number `json:"dials"`
}

// Sane returns the pool without what contradicts itself: more connections in use
// or idle than the pool may hold. Which of the numbers is wrong cannot be told,
// so none of them is known.
func (p Pool) Sane() Pool {
	size, ok := p.Size.Get()
	for _, n := range []struct {
		what  string
		count probes.Number
	}{{"in use", p.InUse}, {"idle", p.Idle}} {
		if ok && n.count.Or(0) > size {
			none := probes.Unknown(fmt.Sprintf("impossible: %v connections %s in a pool of %v", n.count.Or(0), n.what, size))
			p.Size, p.InUse, p.Idle = none, none, none
			return p
		}
	}
	return p
}

// RedisClient is GET /debug/diagnose/redis: Redis as the service sees it.
type RedisClient struct {
	Now         Time          `json:"now"`
	StartedAt   Time          `json:"started_at"`
	ClientName  string        `json:"client_name"`
	Pool        Pool          `json:"pool"`
	Commands    probes.Number `json:"commands"`
	Errors      probes.Number `json:"errors"`
	BusySeconds probes.Number `json:"busy_seconds"`
	Lookups     probes.Number `json:"lookups"`
	Hits        struct {
		Taken probes.Number `json:"taken"`
		Free  probes.Number `json:"free"`
	} `json:"hits"`
	Misses probes.Number `json:"misses"`
}

// Shards is GET /debug/diagnose/shards.
type Shards struct {
	Now       Time    `json:"now"`
	StartedAt Time    `json:"started_at"`
	Shards    []Shard `json:"shards"`
}

// Shard is one shard as the service sees it.
type Shard struct {
	Shard       string        `json:"shard"`
	Address     string        `json:"address"`
	Requests    probes.Number `json:"requests"`
	Errors      probes.Number `json:"errors"`
	BusySeconds probes.Number `json:"busy_seconds"`
	Pool        Pool          `json:"pool"`
	TopKeys     TopKeys       `json:"top_keys"`
	// Replica is nil where the service looks names up on the shard itself, or does
	// not tell.
	Replica *Replica `json:"replica"`
}

// Replica is where the look-ups of a shard go.
type Replica struct {
	Address string        `json:"address"`
	Lookups probes.Number `json:"lookups"`
}

// RouteRequest is the body of POST /debug/diagnose/route.
type RouteRequest struct {
	Names []string `json:"names"`
}

// Routes is the answer to POST /debug/diagnose/route.
type Routes struct {
	Version probes.Number `json:"version"`
	// Shards are the names of the shards, one for each name asked about; empty for
	// one that is on its way from one to another.
	Shards []string `json:"shards"`
}

// TopKeys is a Space-Saving summary: the true count of a key lies in
// [Count - Error, Count].
type TopKeys struct {
	Since Time          `json:"since"`
	Total probes.Number `json:"total"`
	Keys  []TopKey      `json:"keys"`
}

// TopKey is one key of a TopKeys summary.
type TopKey struct {
	Key   string        `json:"key"`
	Count probes.Number `json:"count"`
	Error probes.Number `json:"error"`
}

// Errors is GET /debug/diagnose/errors.
type Errors struct {
	Now       Time          `json:"now"`
	StartedAt Time          `json:"started_at"`
	Capacity  probes.Number `json:"capacity"`
	Recorded  probes.Number `json:"recorded"`
	// Gone is what the service has forgotten, by layer; nil where it does not tell.
	Gone map[string]GoneErrors `json:"gone"`
	// Errors is nil when it is left out, which is not the same as empty.
	Errors []LoggedError `json:"errors"`
}

// GoneErrors are the errors of one layer that are forgotten.
type GoneErrors struct {
	Count probes.Number `json:"count"`
	// KeptSince is from when on all errors of the layer are there.
	KeptSince Time `json:"kept_since"`
}

// LoggedError is one error that the service recorded.
type LoggedError struct {
	At      Time   `json:"at"`
	Level   string `json:"level"`
	Message string `json:"message"`
	Layer   string `json:"layer"`
	Target  string `json:"target"`
	Code    string `json:"code"`
}

// Changes is GET /debug/diagnose/changes.
type Changes struct {
	Now Time `json:"now"`
	// Changes is nil when it is left out, which is not the same as empty.
	Changes []Change `json:"changes"`
}

// Change is one change of the service's build or configuration.
type Change struct {
	At   Time   `json:"at"`
	Kind string `json:"kind"`
	What string `json:"what"`
	From string `json:"from"`
	To   string `json:"to"`
	By   string `json:"by"`
}
