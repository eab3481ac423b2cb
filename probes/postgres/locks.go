package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/regpath/diagnose/probes"
	"github.com/regpath/diagnose/probes/source"
)

// lockTree is who waits for whom. The zero value is that nobody does.
type lockTree struct {
	err      error
	sessions map[string]session
}

// session is one that waits for a lock, or that others wait for.
type session struct {
	pid, client, state string
	transaction        probes.Number // its age in seconds
	blockers           []string
}

// prepared is the pid that stands for a transaction that was prepared and left.
const prepared = "0"

// readLocks asks for the tree if any session waits for a lock.
func readLocks(ctx context.Context, cost *probes.Cost, db database, sessions []source.Record) lockTree {
	waiting := false
	for _, r := range sessions {
		waiting = waiting || waits(r)
	}
	if !waiting {
		return lockTree{}
	}
	rows, err := db.Query(ctx, cost, "locks", locksQuery)
	t := lockTree{err: err, sessions: map[string]session{}}
	for _, r := range rows {
		t.sessions[r.Text("pid")] = session{
			pid: r.Text("pid"), client: r.Text("client"), state: r.Text("state"),
			transaction: r.Number("transaction_age").Clamp(0, maxAge), blockers: strings.Fields(r.Text("blockers")),
		}
	}
	return t
}

// waiters is how many sessions wait.
func (t lockTree) waiters() probes.Number {
	if t.err != nil {
		return probes.Unknown(t.err.Error())
	}
	n := 0.0
	for _, s := range t.sessions {
		if len(s.blockers) > 0 {
			n++
		}
	}
	return probes.Known(n)
}

// root follows those that a session waits for to one that waits for nobody, the
// oldest where there are several. It is false in a circle, which the server
// breaks itself.
func (t lockTree) root(pid string, seen map[string]bool) (oldest session, ok bool) {
	if seen[pid] {
		return session{}, false
	}
	seen[pid] = true
	s := t.sessions[pid]
	if len(s.blockers) == 0 {
		return s, s.pid != ""
	}
	for _, b := range s.blockers {
		if r, found := t.root(b, seen); found && (!ok || r.transaction.Or(-1) > oldest.transaction.Or(-1)) {
			oldest, ok = r, true
		}
	}
	return oldest, ok
}

// roots counts, by session, how many wait for it in the end.
func (t lockTree) roots() map[string]int {
	held := map[string]int{}
	for pid, s := range t.sessions {
		if len(s.blockers) == 0 {
			continue
		}
		if r, ok := t.root(pid, map[string]bool{}); ok {
			held[r.pid]++
		}
	}
	return held
}

// idle reports whether the session's client has left its transaction alone.
func (s session) idle() bool {
	return strings.HasPrefix(s.state, "idle in transaction") || s.pid == prepared
}

// behind is how many sessions wait, in the end, for a transaction that is at least
// so old.
func (t lockTree) behind(seconds float64) float64 {
	n := 0.0
	for pid, waiting := range t.roots() {
		if t.sessions[pid].transaction.Or(0) >= seconds {
			n += float64(waiting)
		}
	}
	return n
}

// recordLocks records the queues for locks, and who is at their root. A queue that
// is not there in both samples stands nevertheless if what it waits for was there
// before the first one: those who wait give up after a moment, and others come.
func recordLocks(rec *probes.Recorder, shards []shard) {
	inBoth := lower(func(s sample) probes.Number {
		if s.sessionsErr != nil {
			return probes.Unknown(s.sessionsErr.Error())
		}
		return s.locks.waiters()
	})
	waiters := func(s shard) probes.Number {
		n := inBoth(s)
		if between := s.last.taken.Sub(s.first.taken).Seconds(); between > 0 {
			return n.Higher(probes.Known(s.last.locks.behind(between)))
		}
		return n
	}
	total := over(shards, waiters, sum)
	rec.Set("lock_waiters", total)
	rec.Set("shards_locked", count(shards, waiters))
	var worst session
	unseen := probes.Unknown("who is at the root of the queue is not seen")
	n, ok := total.Get()
	if !ok {
		unseen = total // for the same reason
	}
	age := unseen
	for _, s := range shards {
		if s.err() != nil || waiters(s).Or(0) == 0 {
			continue
		}
		held := s.last.locks.roots()
		for pid, n := range held {
			root := s.last.locks.sessions[pid]
			what := fmt.Sprintf("%s, pid %s, %s", s.name, pid, root.state)
			if v, ok := root.transaction.Get(); ok {
				what += fmt.Sprintf(", its transaction is %.1f s old", v)
			}
			row(rec, tableBlockers, label(root.client), probes.Known(float64(n)), probes.Count, "%s", what+"; sessions that wait for it")
			if worst.pid == "" || root.transaction.Or(-1) > worst.transaction.Or(-1) {
				worst, age = root, root.transaction
			}
		}
	}
	nobody := ok && n == 0
	rec.Set("blocker_seconds", age.MootIf(nobody, "nobody waits for a lock"))
	idle := unseen
	if worst.pid != "" {
		idle = probes.Known(0)
	}
	if worst.idle() {
		idle = probes.Known(1)
	}
	rec.Set("blocker_idle", idle.MootIf(nobody, "nobody waits for a lock"))
}

func label(client string) string {
	if client == "" {
		return "(without a name)"
	}
	return client
}
