// Package postgres looks at the database servers of the shards themselves: what
// their sessions do and wait for, how many there may be, who blocks whom, whether
// they take writes, how far their replicas are behind, how they find names, and
// whether the names that lie on a shard are those that are routed to it.
//
// Every figure comes from the statistics views, so membership in pg_monitor is all
// that the agent's role needs; only the sample of names needs SELECT on their
// tables. What the role may not see is unknown.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// Options are what a playbook may set.
type Options struct {
	// Window is the time between the two samples: 0.5 s to 30 s, 3 s unless set.
	Window time.Duration `yaml:"window"`
	// Tables is a LIKE pattern for the tables that hold the names.
	Tables string `yaml:"tables"`
	// Column is their column with the name.
	Column string `yaml:"column"`
	// Routing is the table in which a shard keeps its routing table, with a column
	// version. A shard without it has none.
	Routing string `yaml:"routing"`
}

// The schema of the reference service.
const (
	defaultTables  = `names\_%`
	defaultColumn  = "username"
	defaultRouting = "routing"
)

var (
	pattern    = regexp.MustCompile(`^[A-Za-z0-9_%\\]{1,63}$`)
	identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
)

// database is what the probe asks of a shard or of a pooler's console.
type database interface {
	Name() string
	Address() string
	Query(ctx context.Context, cost *probes.Cost, what, statement string) ([]source.Record, error)
}

var _ database = (*source.Postgres)(nil)

// Kind returns the kind of probe that asks each of dbs and, of the poolers before
// them, each of consoles. The service behind api says where it looks for a name.
// All three may be empty: the facts that need them are then missing. The names
// of dbs should be those that the service uses.
func Kind(api *source.HTTP, dbs, consoles []*source.Postgres) probes.Kind {
	return kind(api, databases(dbs), databases(consoles))
}

func databases(list []*source.Postgres) []database {
	out := make([]database, 0, len(list))
	for _, db := range list {
		out = append(out, db)
	}
	return out
}

func kind(api *source.HTTP, dbs, consoles []database) probes.Kind {
	return probes.Kind{
		Facts: facts(),
		Tables: []string{
			tableClients, tableBlockers, tableFull, tableReadOnly, tableReplicas, tableScans, tableFailed, tableMisplaced,
			tableQueues, tableSessions,
		},
		New: func(decode func(any) error) (probes.Probe, error) {
			o := Options{Tables: defaultTables, Column: defaultColumn, Routing: defaultRouting}
			if err := decode(&o); err != nil {
				return nil, err
			}
			window, err := source.Window(o.Window)
			if err != nil {
				return nil, err
			}
			if !pattern.MatchString(o.Tables) {
				return nil, fmt.Errorf("tables: %q is no pattern for names of tables, as names\\_%%", o.Tables)
			}
			if !identifier.MatchString(o.Column) || !identifier.MatchString(o.Routing) {
				return nil, fmt.Errorf("column %q or routing %q is no plain name in small letters", o.Column, o.Routing)
			}
			return &probe{api: api, dbs: dbs, consoles: consoles, window: window, options: o}, nil
		},
	}
}

type probe struct {
	api           *source.HTTP
	dbs, consoles []database
	window        time.Duration
	options       Options
}

// Check implements probes.Probe. It asks every shard three times at each end of the
// window, once more at an end at which sessions wait for locks, and once for a
// sample of names; a console once at each end; the service once, and once more where
// a replica is behind.
func (p *probe) Check(ctx context.Context) (probes.Evidence, error) {
	rec := probes.NewRecorder(facts())
	rec.Set("shards_configured", probes.Known(float64(len(p.dbs))))
	rec.Set("bouncers_configured", probes.Known(float64(len(p.consoles))))
	first := p.look(ctx, rec, nil)
	last, window := first, time.Duration(0)
	noSpan := ""
	if len(p.dbs)+len(p.consoles) == 0 {
		noSpan = "no Postgres shard is configured: set their DSNs to ask them directly"
	} else if err := source.Wait(ctx, p.window); err != nil {
		noSpan = err.Error()
	} else {
		last, window = p.look(ctx, rec, &first), p.window
	}
	shards := p.pair(first, last, noSpan)
	recordReach(rec, shards)
	recordSessions(rec, shards)
	recordLocks(rec, shards)
	p.recordServers(ctx, rec, shards)
	recordTables(rec, shards)
	p.recordRouting(ctx, rec, shards)
	recordQueues(rec, first, last, noSpan)
	return rec.Evidence(p.name(), window)
}

func (p *probe) name() string {
	if len(p.dbs) == 0 {
		return "no postgres"
	}
	name := "postgres " + p.dbs[0].Address()
	if len(p.dbs) > 1 {
		name += fmt.Sprintf(" and %d more", len(p.dbs)-1)
	}
	return name
}

// look is what all servers say at one moment.
type look struct {
	shards   []sample
	consoles []queues
}

// look asks all servers at once, so that several dead ones cost the time of one. A
// shard that did not answer before is left alone.
func (p *probe) look(ctx context.Context, rec *probes.Recorder, before *look) look {
	l := look{shards: make([]sample, len(p.dbs)), consoles: make([]queues, len(p.consoles))}
	costs := make([]probes.Cost, len(p.dbs)+len(p.consoles))
	var wg sync.WaitGroup
	for i, db := range p.dbs {
		if before != nil && before.shards[i].err != nil {
			l.shards[i] = before.shards[i]
			continue
		}
		wg.Go(func() { l.shards[i] = p.sample(ctx, &costs[i], db) })
	}
	for i, c := range p.consoles {
		wg.Go(func() { l.consoles[i] = readQueues(ctx, &costs[len(p.dbs)+i], c) })
	}
	wg.Wait()
	for _, c := range costs {
		*rec.Cost() = rec.Cost().Plus(c)
	}
	return l
}

// sample is what one shard says at one moment. What could not be asked has its
// error; err is that of the first question, without which the rest is not asked.
type sample struct {
	taken    time.Time
	err      error
	server   source.Record
	sessions []source.Record
	// sessionsErr says why what sessions do cannot be seen.
	sessionsErr error
	locks       lockTree
	tables      []source.Record
	tablesErr   error
}

func (p *probe) sample(ctx context.Context, cost *probes.Cost, db database) sample {
	s := sample{taken: time.Now()}
	rows, err := db.Query(ctx, cost, "server", serverQuery)
	if err == nil && len(rows) != 1 {
		err = errors.New("server: the answer is not one row")
	}
	if err != nil {
		s.err = err
		return s
	}
	s.server = rows[0]
	switch {
	case !s.server.Is("sees_all"):
		s.sessionsErr = errors.New("the agent's role does not see what sessions do: GRANT pg_monitor TO it")
	default:
		s.sessions, s.sessionsErr = db.Query(ctx, cost, "sessions", sessionsQuery)
	}
	if s.sessionsErr == nil {
		s.locks = readLocks(ctx, cost, db, s.sessions)
	}
	s.tables, s.tablesErr = db.Query(ctx, cost, "tables", tablesQuery(p.options))
	return s
}

// shard is one shard at both ends of the window.
type shard struct {
	name        string
	first, last sample
	span        source.Span
	found       found
}

// pair joins the two looks. Without a second one there is no span, for the reason
// given.
func (p *probe) pair(first, last look, noSpan string) []shard {
	shards := make([]shard, len(p.dbs))
	for i, db := range p.dbs {
		s := shard{name: db.Name(), first: first.shards[i], last: last.shards[i], span: source.NoSpan(noSpan)}
		if noSpan == "" && s.first.err == nil && s.last.err == nil {
			s.span = source.Between(s.first.moment(), s.last.moment())
		}
		shards[i] = s
	}
	return shards
}

// moment is the sample for the measure of time.
func (s sample) moment() source.Sample {
	m := source.Sample{Taken: s.taken, Epoch: s.server.Text("epoch")}
	if now, ok := s.server.Number("now").Get(); ok {
		m.Now = source.At(time.UnixMicro(int64(now * 1e6)))
	}
	return m
}
