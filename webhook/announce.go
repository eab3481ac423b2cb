package webhook

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/riverqueue/river"

	"github.com/regpath/diagnose/playbooks"
)

// announceNews announces an incident to those that news of the alerts is for, and to
// those that have been called for it.
func (in *Inbox) announceNews(ctx context.Context, tx *sql.Tx, id string, alerts []playbooks.Alert) ([]string, error) {
	audience := in.callers()
	if in.opts.Audience != nil {
		audience = in.opts.Audience(alerts)
		if err := each(ctx, tx, func(scan func(...any) error) error {
			var courier string
			err := scan(&courier)
			if _, calls := in.opts.Couriers[courier]; calls && !slices.Contains(audience, courier) {
				audience = append(slices.Clip(audience), courier)
			}
			return err
		}, `SELECT courier FROM deliveries WHERE incident = $1`, id); err != nil {
			return nil, fmt.Errorf("list couriers: %w", err)
		}
	}
	return in.announce(ctx, tx, id, audience...)
}

// announce makes sure that the couriers carry the incident once more. It returns
// the queues that are to be woken after tx.
func (in *Inbox) announce(ctx context.Context, tx *sql.Tx, id string, couriers ...string) ([]string, error) {
	if len(couriers) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(couriers)
	if err != nil {
		return nil, fmt.Errorf("list couriers: %w", err)
	}
	// What is still to be delivered, and has not failed, certainly has a job.
	var idle []string
	err = each(ctx, tx, func(scan func(...any) error) error {
		var courier string
		var waits bool
		err := scan(&courier, &waits)
		if !waits {
			idle = append(idle, courier)
		}
		return err
	}, `INSERT INTO deliveries (incident, courier, wanted, since) SELECT $1, value, 1, $2 FROM json_each($3) WHERE TRUE
		ON CONFLICT (incident, courier) DO UPDATE SET since = CASE WHEN deliveries.done < deliveries.wanted THEN deliveries.since ELSE excluded.since END,
			wanted = deliveries.wanted + 1, attempts = 0
		RETURNING courier, done < wanted - 1 AND error = ''`,
		id, toStamp(in.opts.Now()), string(list))
	if err != nil {
		return nil, fmt.Errorf("note delivery: %w", err)
	}
	return in.enqueueDeliveries(ctx, tx, id, idle...)
}

// River takes jobs of the first priority before those of the others.
const (
	priorityFirst = 1
	priorityUsual = 2
)

// enqueueDeliveries makes sure that each of the couriers has a job for the
// incident that is not finished. It returns the queues that have a new one. Urgent
// incidents go before others: a channel takes a message a second, and a storm of
// warnings would fill it for minutes.
func (in *Inbox) enqueueDeliveries(ctx context.Context, tx *sql.Tx, id string, couriers ...string) ([]string, error) {
	if len(couriers) == 0 {
		return nil, nil
	}
	var severity string
	if err := tx.QueryRowContext(ctx, `SELECT severity FROM incidents WHERE id = $1`, id).Scan(&severity); err != nil {
		return nil, fmt.Errorf("look up the severity: %w", err)
	}
	priority := priorityUsual
	if in.opts.Urgent(severity) {
		priority = priorityFirst
	}
	jobs := make([]river.InsertManyParams, 0, len(couriers))
	for _, courier := range couriers {
		jobs = append(jobs, river.InsertManyParams{Args: deliveryArgs{Incident: id, Courier: courier}, InsertOpts: &river.InsertOpts{
			Queue: queueOf(courier), Priority: priority, MaxAttempts: maxAttempts, UniqueOpts: once(),
		}})
	}
	results, err := in.client.InsertManyTx(ctx, tx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue deliveries: %w", err)
	}
	var queues []string
	for _, r := range results {
		if !r.UniqueSkippedAsDuplicate {
			queues = append(queues, r.Job.Queue)
		}
	}
	return queues, nil
}

// redeliver gives every delivery that was given up another chance: it has no job any
// more. What was to be told by couriers that there are no more is told by those that
// there are. After a storm there may be thousands, so that they go in by and by.
func (in *Inbox) redeliver(ctx context.Context) error {
	idle := map[deliveryArgs]bool{}
	orphaned := map[string]bool{}
	if err := each(ctx, in.store.write, func(scan func(...any) error) error {
		var d deliveryArgs
		err := scan(&d.Incident, &d.Courier)
		if _, known := in.all[d.Courier]; known {
			idle[d] = true
		} else {
			orphaned[d.Incident] = true
		}
		return err
	}, `SELECT incident, courier FROM deliveries WHERE done < wanted`); err != nil {
		return fmt.Errorf("list undelivered: %w", err)
	}
	if err := each(ctx, in.store.write, func(scan func(...any) error) error {
		var d deliveryArgs
		err := scan(&d.Incident, &d.Courier)
		delete(idle, d)
		return err
	}, `SELECT args ->> 'incident', args ->> 'courier' FROM river_job WHERE kind = 'delivery' AND `+unfinished); err != nil {
		return fmt.Errorf("list deliveries under way: %w", err)
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(idle)), reclaimedAtOnce) {
		if err := in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for _, d := range part {
				if _, err := in.enqueueDeliveries(ctx, tx, d.Incident, d.Courier); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	for id := range orphaned {
		if err := in.store.updatePatiently(ctx, func(ctx context.Context, tx *sql.Tx) error {
			inc, _, err := load(ctx, tx, id)
			if err == nil {
				_, err = in.announceNews(ctx, tx, id, inc.Alerts)
			}
			return err
		}); err != nil {
			return fmt.Errorf("pass on what no courier tells any more: %w", err)
		}
	}
	return nil
}
