package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
	"github.com/regpath/diagnose/reference/shard"
)

// heldUp are shards whose requests wait, in the server or before it.
func heldUp() []ailment {
	return []ailment{
		ill("shard-lock-queue", "an index of shard1 made without CONCURRENTLY", registering(20, lightly), holds(1, "CREATE INDEX ON outbox (user_id)")),
		ill("shard-lock-queue", "a table of shard2 locked", nil, holds(2, "LOCK TABLE names_03 IN ACCESS EXCLUSIVE MODE")),
		ill("shard-lock-queue", "a migration of shard0 left open", lightly, holds(0, "ALTER TABLE names_00 ADD COLUMN note text", "ALTER TABLE names_07 ADD COLUMN note text")),

		ill("shard-pool-leak", "usual load", nil, switched("shard-pool-leak")),
		ill("shard-pool-leak", "half the load", asIn("healthy", 0.5), switched("shard-pool-leak")),
		ill("shard-pool-leak", "a pool of three", withFlags(lightly, "--shard-pool", "3"), switched("shard-pool-leak")),

		ill("shard-pool-too-small", "one connection, 20 ms away", registering(400, on(estate{shards: 4, way: far(10*time.Millisecond, 0, 1, 2, 3)}), "--shard-pool", "1"), nil),
		ill("shard-pool-too-small", "shard1 20 ms away", registering(500, on(estate{shards: 4, way: far(10*time.Millisecond, 1)}), "--shard-pool", "1"), nil),
		ill("shard-pool-too-small", "two shards, two connections", registering(400, on(estate{shards: 2, way: far(10*time.Millisecond, 0, 1)}), "--shard-pool", "2"), nil),

		ill("pgbouncer-queue", "one server connection, shared with a report", registering(40, on(pooled(1, 1))), reports(1, 3, 300*time.Millisecond)),
		ill("pgbouncer-queue", "two server connections, shared with reports", registering(40, on(pooled(0, 2))), reports(0, 5, 400*time.Millisecond)),
		ill("pgbouncer-queue", "a short report, again and again", registering(80, on(pooled(3, 1))), reports(3, 4, 100*time.Millisecond)),
	}
}

// refusing are shards whose servers refuse, or hold too much or too little.
func refusing() []ailment {
	const readOnly = "ALTER SYSTEM SET default_transaction_read_only = on"
	const reload = "SELECT pg_reload_conf()"
	return []ailment{
		ill("shard-too-many-clients", "all slots of shard1", nil, crowds(1, "postgres", true)),
		ill("shard-too-many-clients", "all slots of shard0 but those for the superuser", lightly, crowds(0, "visitor", false)),
		ill("shard-too-many-clients", "all slots of shard3, half the load", asIn("healthy", 0.5), crowds(3, "visitor", true)),

		ill("shard-conflict-storm", "50 a second on shard1", nil, inserts(1, 50)),
		ill("shard-conflict-storm", "25 a second on shard0", asIn("healthy", 0.5), inserts(0, 25)),
		ill("shard-conflict-storm", "200 a second on shard3", lightly, inserts(3, 200)),

		ill("shard-readonly", "shard1 set read-only", registering(20, lightly), tells(1, readOnly, reload)),
		ill("shard-readonly", "the database of shard2 set read-only", registering(40, lightly), tells(2, "ALTER DATABASE postgres SET default_transaction_read_only = on",
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'checker'")),
		ill("shard-readonly", "shard1 demoted", registering(20, on(estate{shards: 4})), func(ctx context.Context, p *patient) error { return p.postgres.Demote(ctx, 1) }),

		ill("shard-missing-index", "a table of shard1", registering(40, lightly), tells(1, "ALTER TABLE names_05 DROP CONSTRAINT names_05_pkey")),
		ill("shard-missing-index", "all tables of shard3", nil, tells(3, everyTable("ALTER TABLE names_%02[1]d DROP CONSTRAINT names_%02[1]d_pkey")...)),
		ill("shard-missing-index", "an index of shard0 is not valid", registering(20, lightly), tells(0,
			"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'names_02_pkey'::regclass")),

		ill("shard-routing-drift", "half of shard0 on shard1", nil, drifts(0, 1, 2)),
		ill("shard-routing-drift", "all of shard2 on shard3", lightly, drifts(2, 3, 1)),
		ill("shard-routing-drift", "a tenth of shard3 on shard0", asIn("healthy", 0.5), drifts(3, 0, 10)),

		ill("shard-skew", "20 names of shard1", busily, crowdsOn(1, 20, 500)),
		ill("shard-skew", "60 names of shard0", withFlags(busily, "--shard-pool", "2"), crowdsOn(0, 60, 900)),
		ill("shard-skew", "12 names of shard3", asIn("healthy", 0.5), crowdsOn(3, 12, 400)),
	}
}

// behind are shards with a streaming standby that look-ups go to.
func behind() []ailment {
	var standby string
	// One standby is enough: the other shard answers its look-ups itself.
	of := func(which int) func(*plan) {
		return registering(20, on(estate{shards: 2, reader: func(ctx context.Context, p *patient, i int) (dsn string, err error) {
			if i != which {
				return p.postgres.DSN(i), nil
			}
			standby, err = p.postgres.StartStandby(ctx, i)
			return standby, err
		}}))
	}
	asks := func(statements ...string) func(context.Context, *patient) error {
		return func(ctx context.Context, _ *patient) error {
			c, err := pgx.Connect(ctx, standby)
			if err != nil {
				return fmt.Errorf("standby: %w", err)
			}
			defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // what it did is done
			for _, s := range statements {
				if _, err := c.Exec(ctx, s); err != nil {
					return fmt.Errorf("standby: %w", err)
				}
			}
			return nil
		}
	}
	return []ailment{
		ill("shard-replica-lag", "shard0 applied late", of(0), asks("ALTER SYSTEM SET recovery_min_apply_delay = '30s'", "SELECT pg_reload_conf()")),
		ill("shard-replica-lag", "shard1 paused", of(1), asks("SELECT pg_wal_replay_pause()")),
		ill("shard-replica-lag", "shard1 applied late by seconds", of(1), asks("ALTER SYSTEM SET recovery_min_apply_delay = '4s'", "SELECT pg_reload_conf()")),
	}
}

// withFlags adds flags of the checker to a plan.
func withFlags(more func(*plan), flags ...string) func(*plan) {
	return func(pl *plan) {
		if more != nil {
			more(pl)
		}
		pl.flags = append(slices.Clone(pl.flags), flags...)
	}
}

// registering brings so many registrations a second, and a filter that has room
// for them.
func registering(perSecond float64, more func(*plan), flags ...string) func(*plan) {
	return func(pl *plan) {
		withFlags(more, flags...)(pl)
		checks := pl.load.Rate * (1 - pl.load.RegisterShare)
		pl.load.Rate = checks + perSecond
		pl.load.RegisterShare = perSecond / pl.load.Rate
		pl.capacity = 3 * pl.names
	}
}

func tells(shard int, statements ...string) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error { return p.sql(ctx, shard, statements...) }
}

// everyTable is a statement for each table of names.
func everyTable(statement string) []string {
	all := make([]string, shard.SubTables)
	for i := range all {
		all[i] = fmt.Sprintf(statement, i)
	}
	return all
}

// holds leaves a transaction open that has done this.
func holds(shard int, statements ...string) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		c, err := p.session(ctx, shard, "postgres", "forgetful")
		if err != nil {
			return err
		}
		for _, s := range append([]string{"BEGIN"}, statements...) {
			if _, err := c.Exec(ctx, s); err != nil {
				return fmt.Errorf("shard%d: %s: %w", shard, s, err)
			}
		}
		return nil
	}
}

// crowds has others hold every slot that the role may have, after those of the
// service were cut off if so.
func crowds(shard int, role string, cut bool) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		if role != "postgres" {
			if err := p.sql(ctx, shard, "CREATE ROLE "+role+" LOGIN"); err != nil {
				return err
			}
		}
		operator, err := p.session(ctx, shard, "postgres", "operator")
		if err != nil {
			return err
		}
		for range 2 { // who is cut off comes again, while others come too
			if cut {
				if _, err := operator.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'checker'"); err != nil {
					return fmt.Errorf("shard%d: %w", shard, err)
				}
			}
			for err == nil {
				_, err = p.session(ctx, shard, role, "batch")
			}
			if p.life.Err() != nil || ctx.Err() != nil {
				return errors.Join(ctx.Err(), err)
			}
			err = nil
		}
		return nil
	}
}

// inserts tries to insert names that exist, by code that does not say ON CONFLICT.
func inserts(shard int, perSecond float64) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		c, err := p.connect(ctx, shard, "postgres", "importer")
		if err != nil {
			return err
		}
		found, err := c.Query(ctx, "SELECT username FROM names_04 LIMIT 200")
		if err != nil {
			return errors.Join(fmt.Errorf("shard%d: %w", shard, err), c.Close(ctx))
		}
		names, err := pgx.CollectRows(found, pgx.RowTo[string])
		if err != nil || len(names) == 0 {
			return errors.Join(fmt.Errorf("shard%d: %d names: %w", shard, len(names), err), c.Close(ctx))
		}
		p.spawn(func(ctx context.Context) {
			defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
			tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
			defer tick.Stop()
			for ctx.Err() == nil {
				_, _ = c.Exec(ctx, "INSERT INTO names_04 (username, user_id, created_at) VALUES ($1, 1, now())", names[rand.IntN(len(names))]) // 23505
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
		return nil
	}
}

// drifts moves every nth row from one shard to another, which no routing table
// knows of.
func drifts(from, to, nth int) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		source, err := p.session(ctx, from, "postgres", "mover")
		if err != nil {
			return err
		}
		target, err := p.session(ctx, to, "postgres", "mover")
		if err != nil {
			return err
		}
		columns := []string{"username", "user_id", "created_at", "state"}
		for i := range shard.SubTables {
			table := fmt.Sprintf("names_%02d", i)
			found, err := source.Query(ctx, fmt.Sprintf("DELETE FROM %s WHERE hashtext(username) %% %d = 0 RETURNING username, user_id, created_at, state", table, nth))
			if err != nil {
				return fmt.Errorf("shard%d: %w", from, err)
			}
			rows, err := pgx.CollectRows(found, func(r pgx.CollectableRow) ([]any, error) { return r.Values() })
			if err != nil {
				return fmt.Errorf("shard%d: %w", from, err)
			}
			if _, err := target.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows)); err != nil {
				return fmt.Errorf("shard%d: %w", to, err)
			}
		}
		return nil
	}
}

// crowdsOn has so many names of one shard asked for, each as often as the others.
func crowdsOn(which, names int, perSecond float64) func(context.Context, *patient) error {
	return func(_ context.Context, p *patient) error {
		table := shard.DefaultRoutingTable(len(p.shards))
		for i, found := 0, 0; found < names; i++ {
			if table.Owner(load.Name(i)) != which {
				continue
			}
			found++
			profile := p.plan.load
			profile.HotName, profile.HotShare, profile.HotRegister, profile.Rate, profile.Workers = load.Name(i), 1, true, perSecond/float64(names), 8
			p.spawn(func(ctx context.Context) { p.send(ctx, p.url, profile) })
		}
		return nil
	}
}

// pooled is an estate with a PgBouncer before one shard.
func pooled(which, connections int) estate {
	return estate{shards: 4, way: func(ctx context.Context, p *patient, i int) (string, error) {
		if i != which {
			return p.postgres.DSN(i), nil
		}
		u, err := url.Parse(p.postgres.DSN(i))
		if err != nil {
			return "", err
		}
		if p.bouncer, err = local.StartPgBouncer(ctx, u.Host, connections); err != nil {
			return "", err
		}
		p.ruins = append(p.ruins, p.bouncer.Close)
		return p.bouncer.DSN() + "&default_query_exec_mode=cache_describe", nil
	}}
}

// reports has so many others use the pooler, each statement for so long, and lets
// the agent ask the pooler's console.
func reports(shard, others int, each time.Duration) func(context.Context, *patient) error {
	return func(ctx context.Context, p *patient) error {
		file, err := secretFile(p, p.bouncer.Console())
		if err != nil {
			return err
		}
		p.agent = append(slices.Clone(p.agent), "--pgbouncer-dsn-file", file)
		seconds := strconv.FormatFloat(each.Seconds(), 'f', 3, 64)
		for range others {
			config, err := pgx.ParseConfig(p.bouncer.DSN())
			if err != nil {
				return fmt.Errorf("pooler of shard%d: %w", shard, err)
			}
			config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			c, err := pgx.ConnectConfig(ctx, config)
			if err != nil {
				return fmt.Errorf("pooler of shard%d: %w", shard, err)
			}
			p.spawn(func(ctx context.Context) {
				defer c.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
				for ctx.Err() == nil {
					if _, err := c.Exec(ctx, "SELECT pg_sleep("+seconds+")"); err != nil {
						return
					}
				}
			})
		}
		return nil
	}
}

// frozen stops a process for part of the time, as a machine that is overbooked
// does.
func frozen(p *patient, pid int, held, let time.Duration) {
	p.later(func() error { return syscall.Kill(pid, syscall.SIGCONT) })
	p.spawn(func(ctx context.Context) {
		for ctx.Err() == nil {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			_ = pause(ctx, held)
			_ = syscall.Kill(pid, syscall.SIGCONT)
			_ = pause(ctx, let)
		}
	})
}
