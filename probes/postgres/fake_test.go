package postgres

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/probetest"
	"github.com/regpath/diagnose/probes/source"
)

// fake is a shard, or a console, that answers from memory: by the word for the
// question, first what it says at the beginning of the window and then at its end.
type fake struct {
	name string
	err  error // to every question
	// errs are the errors to some.
	errs map[string]error
	// first and last are the answers.
	first, last map[string][]source.Record
	asked       atomic.Int64
}

func (f *fake) Name() string  { return f.name }
func (*fake) Address() string { return "127.0.0.1:5432" }

func (f *fake) Query(ctx context.Context, cost *probes.Cost, what, _ string) ([]source.Record, error) {
	if ctx.Err() != nil {
		return nil, source.ErrInterrupted
	}
	cost.Queries++
	f.asked.Add(1)
	if f.err != nil {
		return nil, f.err
	}
	if err := f.errs[what]; err != nil {
		return nil, err
	}
	answers := f.first
	if f.asked.Load() > 3 && f.last != nil {
		answers = f.last
	}
	return answers[what], nil
}

// well is a shard that is well.
func well(name string) *fake {
	f := &fake{name: name, first: healthy(), last: healthy()}
	f.last["server"][0]["now"] = "1000003"
	f.last["server"][0]["commits"] = "1300"
	return f
}

func healthy() map[string][]source.Record {
	return map[string][]source.Record{
		"server": {{
			"sees_all": "t", "now": "1000000", "epoch": "5 0", "standby": "f", "read_only": "f", "slots": "97", "commits": "1000",
			"rollbacks": "0", "deadlocks": "0", "replicas": "0", "sequence_used": "0.001", "sequence_ahead": "10",
		}},
		"sessions": {
			{"client": "checker", "here": "t", "service": "t", "state": "idle", "wait": "Client", "n": "7", "state_age": "0.1", "stale": "0", "slow": "7"},
			{"client": "checker", "here": "t", "service": "t", "state": "active", "wait": "", "n": "1", "state_age": "0.001", "transaction_age": "0.001", "stale": "0", "slow": "0"},
			{"client": "diagnose", "here": "f", "service": "f", "state": "active", "wait": "", "n": "1", "transaction_age": "0.002", "stale": "0", "slow": "0"},
		},
		"tables": {table("names_00"), table("names_01")},
		"names":  {{"name": "ada"}, {"name": "bob"}, {"version": "3"}},
	}
}

func table(name string) source.Record {
	return source.Record{
		"name": "public." + name, "scans": "5", "scanned": "500", "by_index": "1000", "inserted": "100", "updated": "3", "deleted": "2",
		"live": "95", "dead": "5", "vacuums": "1", "pages": "1", "indexed": "t", "readable": "t", "routing": "t",
	}
}

// set changes columns of the only row of an answer, or of its first.
func set(answers map[string][]source.Record, what string, columns ...string) {
	for i := 0; i < len(columns); i += 2 {
		answers[what][0][columns[i]] = columns[i+1]
	}
}

const routes = `{"now":"2026-11-30T16:00:00Z","version":3,"shards":["shard0","shard0","shard1","shard1"]}`

func shortest(o any) error {
	if o, ok := o.(*Options); ok {
		o.Window = source.MinWindow
	}
	return nil
}

// check measures the shards. Where a document of routes is given there is a
// service.
func check(t *testing.T, route string, consoles []database, shards ...database) probes.Evidence {
	t.Helper()
	var api *source.HTTP
	if route != "" {
		api = probetest.NewChecker(t, map[string]string{source.PathRoute: route}).Source(t)
	}
	k := kind(api, shards, consoles)
	p, err := k.New(shortest)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := p.Check(t.Context())
	probetest.Valid(t, k.Facts, ev, err)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func rowOf(ev probes.Evidence, table string) probes.Row {
	for _, r := range ev.Rows {
		if r.Table == table {
			return r
		}
	}
	return probes.Row{}
}

// turning gives one answer after the other.
type turning struct {
	fake
	turns []map[string][]source.Record
}

func (f *turning) Query(_ context.Context, cost *probes.Cost, what, _ string) ([]source.Record, error) {
	cost.Queries++
	n := int(f.asked.Add(1)) - 1
	return f.turns[min(n, len(f.turns)-1)][what], nil
}
