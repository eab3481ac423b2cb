package shard

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// replica is where the look-ups of a shard go in place of its primary.
type replica struct {
	pool    *pgxpool.Pool
	address string
	lookups atomic.Uint64
}

// ReplicaStats tells what was asked of a replica.
type ReplicaStats struct {
	// Address is its host:port, empty where it is reached by a unix socket.
	Address string
	// Lookups counts the look-ups that went there.
	Lookups uint64
}

func openReplica(ctx context.Context, o PostgresOptions) (*replica, error) {
	pool, err := openPool(ctx, o.Replica, o)
	if err != nil {
		return nil, err
	}
	return &replica{pool: pool, address: address(pool)}, nil
}

// reader takes a connection to look up on. Whether it leads to the primary or to the replica, it has one of the gate's slots.
func (p *Postgres) reader(ctx context.Context) (conn *pgxpool.Conn, release func(), err error) {
	if p.replica == nil {
		conn, err = p.acquire(ctx)
		return conn, func() { p.release(conn) }, err
	}
	if err := p.gate.enter(ctx); err != nil {
		return nil, nil, err
	}
	if conn, err = p.replica.pool.Acquire(ctx); err != nil {
		p.gate.leave()
		return nil, nil, fmt.Errorf("connect to the replica: %w", err)
	}
	p.gate.acquires.Add(1)
	p.replica.lookups.Add(1)
	return conn, func() { p.release(conn) }, nil
}

// Replica tells of the replica that look-ups go to, if there is one.
func (p *Postgres) Replica() (ReplicaStats, bool) {
	if p.replica == nil {
		return ReplicaStats{}, false
	}
	return ReplicaStats{Address: p.replica.address, Lookups: p.replica.lookups.Load()}, true
}
