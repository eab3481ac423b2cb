package postgres

import (
	"context"
	"fmt"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// queues are the pools of one PgBouncer at one moment.
type queues struct {
	name  string
	pools []source.Record
	err   error
}

// readQueues asks a console for its pools. Its answer has a row for every pair of
// database and user, of which the console's own is one.
func readQueues(ctx context.Context, cost *probes.Cost, console database) queues {
	q := queues{name: console.Name()}
	rows, err := console.Query(ctx, cost, "show pools", "SHOW POOLS")
	q.err = err
	for _, r := range rows {
		if r.Text("database") != "pgbouncer" {
			q.pools = append(q.pools, r)
		}
	}
	return q
}

// recordQueues records who waits for a server connection of a pooler. A queue counts
// where it stands in both samples; noSpan says why there is but one.
func recordQueues(rec *probes.Recorder, first, last look, noSpan string) {
	names := []string{"bouncer_waiting", "bouncer_wait_seconds", "bouncer_servers"}
	if len(last.consoles) == 0 {
		rec.Moot("no PgBouncer is configured", names...)
		return
	}
	if noSpan != "" {
		rec.Miss(noSpan, names...)
		return
	}
	waiting, longest := probes.Known(0), probes.Known(0)
	servers, most := probes.Known(0), -1.0
	for i, q := range last.consoles {
		if err := first.consoles[i].err; err != nil {
			q.err = err
		}
		if q.err != nil {
			rec.Miss(fmt.Sprintf("%s: %v", q.name, q.err), names...)
			return
		}
		before := map[string]source.Record{}
		for _, r := range first.consoles[i].pools {
			before[r.Text("database")+" "+r.Text("user")] = r
		}
		for _, r := range q.pools {
			was, ok := before[r.Text("database")+" "+r.Text("user")]
			if !ok {
				continue
			}
			n, wait := r.Number("cl_waiting").Lower(was.Number("cl_waiting")), seconds(r).Lower(seconds(was))
			waiting, longest = waiting.Plus(n), longest.Higher(wait)
			if v := n.Or(0); v > most {
				most, servers = v, r.Number("sv_active").Plus(r.Number("sv_idle"))
			}
			if n.Or(0) > 0 {
				row(rec, tableQueues, r.Text("database")+" of "+q.name, n, probes.Count, "clients wait, the first of them for %.1f s; %.0f server connections",
					wait.Or(0), servers.Or(0))
			}
		}
	}
	rec.Set("bouncer_waiting", waiting)
	rec.Set("bouncer_wait_seconds", longest)
	rec.Set("bouncer_servers", servers)
}

// seconds is how long the first client of a pool has waited.
func seconds(r source.Record) probes.Number {
	return r.Number("maxwait").Plus(r.Number("maxwait_us").Times(probes.Known(1e-6)))
}
