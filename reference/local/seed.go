package local

import (
	"context"
	"errors"
	"fmt"
)

// Seed fills shards that a Path does not own with the names that it would give to its own.
func Seed(ctx context.Context, dsns []string, names int) error {
	stores, err := new(Path).openPostgres(ctx, dsns, Options{})
	cluster, err := openCluster(ctx, stores, err)
	if err != nil {
		return err
	}
	if _, err = cluster.Seed(ctx, seed(names)); err != nil {
		err = fmt.Errorf("seed: %w", err)
	}
	return errors.Join(err, cluster.Close())
}

// DSNs are the connection strings of all shards, in order.
func (p *Postgres) DSNs() []string {
	dsns := make([]string, p.Len())
	for i := range dsns {
		dsns[i] = p.DSN(i)
	}
	return dsns
}
