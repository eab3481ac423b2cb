package api

import (
	"maps"
	"net/http"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/regpath/diagnose/reference"
)

// meter counts the requests of one endpoint. Its numbers appear both in the
// diagnostic contract and in /metrics, from this one place.
type meter struct {
	endpoint string
	le       []float64
	counts   []atomic.Uint64 // one more than le
	busy     atomic.Int64    // nanoseconds

	mu    sync.Mutex
	codes map[int]uint64
	// tags counts what was particular to the endpoint: the layer that answered
	// a check, the outcome of a registration.
	tags map[string]uint64
	// byTag has the latency of the requests with each tag.
	byTag map[string]*tagged
}

// tagged is the latency of the requests with one tag.
type tagged struct {
	counts []uint64 // not cumulative
	busy   time.Duration
}

// newMeter returns a meter that shows the tags given from the beginning.
func newMeter(endpoint string, tags ...string) *meter {
	m := &meter{endpoint: endpoint, le: reference.LatencyBounds(), codes: map[int]uint64{}, tags: map[string]uint64{}, byTag: map[string]*tagged{}}
	m.counts = make([]atomic.Uint64, len(m.le)+1)
	for _, t := range tags {
		m.tags[t] = 0
	}
	return m
}

func checkMeter() *meter {
	return newMeter("check", string(reference.Bloom), string(reference.Local), string(reference.Redis), string(reference.Shard))
}

func registerMeter() *meter {
	return newMeter("register", "created", "taken", "invalid", "failed")
}

// done counts a request that was answered with code after took. An empty tag
// is none.
func (m *meter) done(code int, tag string, took time.Duration) {
	bucket := sort.SearchFloat64s(m.le, took.Seconds())
	m.counts[bucket].Add(1)
	m.busy.Add(int64(took))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.codes[code]++
	if tag != "" {
		m.tags[tag]++
		t := m.byTag[tag]
		if t == nil {
			t = &tagged{counts: make([]uint64, len(m.counts))}
			m.byTag[tag] = t
		}
		t.counts[bucket]++
		t.busy += took
	}
}

// readTags returns the latency by tag.
func (m *meter) readTags() map[string]tagged {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[string]tagged, len(m.byTag))
	for tag, t := range m.byTag {
		out[tag] = tagged{counts: slices.Clone(t.counts), busy: t.busy}
	}
	return out
}

// reading is the state of a meter at one moment.
type reading struct {
	endpoint         string
	requests, errors uint64
	busy             time.Duration
	codes            map[int]uint64
	tags             map[string]uint64
	le               []float64
	counts           []uint64 // not cumulative
}

func (m *meter) read() reading {
	r := reading{
		endpoint: m.endpoint, le: m.le, counts: make([]uint64, len(m.counts)), busy: time.Duration(m.busy.Load()),
		codes: map[int]uint64{}, tags: map[string]uint64{},
	}
	for i := range m.counts {
		r.counts[i] = m.counts[i].Load()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for code, n := range m.codes {
		r.codes[code] = n
		r.requests += n
		if code >= http.StatusInternalServerError {
			r.errors += n
		}
	}
	maps.Copy(r.tags, m.tags)
	return r
}
