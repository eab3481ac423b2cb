package rediscache

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// idleFor is how long nothing is sent on a connection that counts as idle. One
// that works for a pool that callers queue for is used again at once.
const idleFor = 3 * time.Second

// sharedName is how many times the size of the service's pool as many connections are of
// its name when others have that name, too: those of a pool come and go.
const sharedName = 1.5

// recordConnections records whose the connections are and which of the
// service's are stuck.
func recordConnections(rec *probes.Recorder, service source.RedisClient, d *source.Details) {
	facts := []string{"service_connections", "service_blocked", "service_idle"}
	if d.ClientsErr != nil {
		lack(rec, d.ClientsErr, facts...)
		return
	}
	type group struct{ total, blocked, idle float64 }
	groups := map[string]*group{}
	var own group
	count := func(g *group, c source.Client) {
		g.total++
		switch {
		case c.Blocked:
			g.blocked++
		case c.Idle >= idleFor:
			g.idle++
		}
	}
	for _, c := range d.Clients {
		if c.Name == service.ClientName {
			count(&own, c)
		}
		key := cmp.Or(c.Name, "(no name)") + " " + c.Host
		if groups[key] == nil {
			groups[key] = &group{}
		}
		count(groups[key], c)
	}
	var rows []probes.Row
	for key, g := range groups {
		rows = append(rows, probes.Row{
			Table: tableClients, Key: key, Value: g.total,
			Note: fmt.Sprintf("%v wait in a blocking command, %v are idle for %v or longer", g.blocked, g.idle, idleFor),
		})
	}
	addRows(rec, rows)
	switch {
	case service.ClientName == "":
		rec.Lack("the service does not tell the name of its connections", facts...)
	case own.total == 0:
		rec.Lack("no connection of the server has the name that the service tells", facts...)
	}
	// Where others have the name as well, those that are stuck may be theirs; that none
	// is stuck is so all the same.
	why := ""
	if own.total > sharedName*service.Pool.Sane().Size.Or(math.Inf(1)) {
		why = "more connections than the pool may hold have the name that the service tells: others use it as well"
	}
	rec.Set("service_connections", probes.Known(own.total))
	rec.Set("service_blocked", unshared(own.blocked, why))
	rec.Set("service_idle", unshared(own.idle, why))
}

// unshared is a count of connections, not to be had where it may be of others.
func unshared(count float64, why string) probes.Number {
	if count > 0 && why != "" {
		return probes.Absent(why)
	}
	return probes.Known(count)
}
