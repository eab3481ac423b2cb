package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// watchEvery is how often senders are asked and the watchdog is looked for.
	watchEvery = time.Minute
	// notYet is how long an alert may have begun before it counts as never
	// received: it is more than a usual group_wait.
	notYet = time.Minute
	// goneFor is how long an alert must be missing from every answer before its
	// end counts as unheard: an Alertmanager that was restarted knows no alert until
	// Prometheus has sent it again, each minute or two.
	goneFor = 5 * time.Minute
)

// reconciler compares what the senders say with what is in the store.
type reconciler struct {
	inbox   *Inbox
	client  *http.Client
	senders []Sender
	// gone holds since when the alerts of an incident are missing from all answers.
	gone map[string]time.Time
}

func newReconciler(in *Inbox, senders []Sender) *reconciler {
	return &reconciler{
		inbox: in, senders: senders, gone: map[string]time.Time{},
		// A redirect leads to a log-in page, not to an Alertmanager.
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// round asks every sender once and acts on the answers: what fires and was never
// received is taken in as if it had been, and what has ended unheard is given up.
// Who does not answer, or not sensibly, changes nothing; what is missing from the
// other answers may then be known to that one.
func (r *reconciler) round(ctx context.Context) {
	listed := map[string]bool{} // by fingerprint
	receivers := map[string]bool{}
	complete := true
	for i := range r.senders {
		s := &r.senders[i]
		groups, err := s.ask(ctx, r.client)
		r.inbox.metrics.asked(i, err)
		if err != nil {
			complete = false
			r.inbox.opts.Logger.WarnContext(ctx, "an Alertmanager cannot be asked what fires", "alertmanager", i, "err", loggable(err.Error(), 300))
			continue
		}
		receivers[s.Receiver] = true
		for _, g := range groups {
			for _, a := range g.Alerts {
				listed[a.Fingerprint] = true
			}
			if err := r.receive(ctx, g); err != nil {
				r.inbox.opts.Logger.WarnContext(ctx, "an alert that was never received could not be taken in", "err", loggable(err.Error(), 300))
			}
		}
	}
	if !complete {
		clear(r.gone) // the time in which nobody could tell does not count
		return
	}
	if err := r.endUnheard(ctx, listed, receivers); err != nil {
		r.inbox.opts.Logger.WarnContext(ctx, "incidents could not be compared with what fires", "err", loggable(err.Error(), 300))
	}
}

// receive takes in what fires of a group, if some of it was never received.
func (r *reconciler) receive(ctx context.Context, g group) error {
	m := Message{Receiver: g.Receiver.Name, GroupLabels: g.Labels}
	due := r.inbox.opts.Now().Add(-notYet)
	for _, a := range g.Alerts {
		if a.active() && !a.StartsAt.After(due) && !r.inbox.opts.Watchdog.is(a.alert()) {
			m.Alerts = append(m.Alerts, a.alert())
		}
	}
	if len(m.Alerts) == 0 {
		return nil
	}
	known, err := r.inbox.knows(ctx, &m)
	if err != nil || known {
		return err
	}
	outcomes, err := r.inbox.Store(ctx, m)
	if err != nil {
		return err
	}
	for _, o := range outcomes {
		if o.Effect == Repeated {
			continue
		}
		r.inbox.metrics.reconciled.WithLabelValues("unreceived").Inc()
		r.inbox.opts.Logger.WarnContext(ctx, "an alert fires that was never received: taken in", "incident", o.Incident, "effect", o.Effect,
			"title", loggable(m.title(), 100))
	}
	return nil
}

// knows reports whether all alerts of the message fire in open incidents of its
// route already.
func (in *Inbox) knows(ctx context.Context, m *Message) (bool, error) {
	distinct := fingerprints(m)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	list, err := json.Marshal(distinct)
	if err != nil {
		return false, fmt.Errorf("list alerts: %w", err)
	}
	var n int
	if err := in.store.read.QueryRowContext(ctx, `SELECT count(DISTINCT fingerprint) FROM incidents JOIN alerts ON incident = id
		WHERE state = 'open' AND route = $1 AND firing AND fingerprint IN (SELECT value FROM json_each($2))`, m.group().route, string(list)).Scan(&n); err != nil {
		return false, fmt.Errorf("look for alerts: %w", err)
	}
	return n == len(distinct), nil
}

// endUnheard gives up the open incidents of these receivers of which no alert that
// fires was listed for goneFor.
func (r *reconciler) endUnheard(ctx context.Context, listed, receivers map[string]bool) error {
	now := r.inbox.opts.Now()
	open, err := listIncidents(ctx, r.inbox.store.read, `state = 'open'`)
	if err != nil {
		return err
	}
	missing := map[string]time.Time{}
	for _, inc := range open {
		if !receivers[inc.receiver] {
			continue
		}
		fire, err := r.inbox.firing(ctx, r.inbox.store.read, inc.id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(fire, func(fp string) bool { return listed[fp] }) {
			if err := r.inbox.heardOf(ctx, inc, now); err != nil {
				return err
			}
			continue
		}
		since, known := r.gone[inc.id]
		if !known || inc.updatedAt.After(since) { // it was heard of meanwhile
			since = now
		}
		if now.Sub(since) < goneFor {
			missing[inc.id] = since
			continue
		}
		given, err := r.inbox.giveUp(ctx, inc.id, since)
		if err != nil {
			return err
		}
		if given {
			r.inbox.metrics.reconciled.WithLabelValues("ended").Inc()
			r.inbox.opts.Logger.WarnContext(ctx, "an incident has ended unheard: no Alertmanager knows of it any more", "incident", inc.id)
		}
	}
	r.gone = missing
	return nil
}

// heardOf notes, now and then, that an incident goes on: a sender knows of it that
// repeats its notifications too seldom to say so.
func (in *Inbox) heardOf(ctx context.Context, inc *incident, now time.Time) error {
	if now.Sub(inc.updatedAt) < in.opts.Silence/4 {
		return nil
	}
	if err := in.store.exec(ctx, `UPDATE incidents SET updated_at = $1 WHERE id = $2 AND state = 'open' AND updated_at < $1`, toStamp(now), inc.id); err != nil {
		return fmt.Errorf("note that incident %s goes on: %w", inc.id, err)
	}
	return nil
}

// firing lists the alerts of an incident that fire, by their fingerprints.
func (in *Inbox) firing(ctx context.Context, q queryer, incident string) ([]string, error) {
	var list []string
	err := each(ctx, q, func(scan func(...any) error) error {
		var fp string
		err := scan(&fp)
		list = append(list, fp)
		return err
	}, `SELECT fingerprint FROM alerts WHERE incident = $1 AND firing`, incident)
	if err != nil {
		return nil, fmt.Errorf("read alerts: %w", err)
	}
	return list, nil
}
