package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/shard"
)

// shardPool is the number of connections to each shard unless the options say otherwise.
const shardPool = 8

// maxShardPool is more than a PostgreSQL takes by default.
const maxShardPool = 1000

// openRedis starts a private Redis, unless the user has one, and returns the cache on it.
func (p *Path) openRedis(ctx context.Context, o Options, patient *fault.Patient) (*cache.Redis, error) {
	options := o.Redis
	if options.Address == "" {
		own, err := StartRedis(ctx, RedisOptions{Real: o.Real})
		if err != nil {
			return nil, err
		}
		p.onClose(own.Close)
		options.Address = own.Addr()
		patient.Redis = &fault.Server{
			Stop:  func(context.Context) error { own.Stop(); return nil },
			Start: own.Restart,
		}
	}
	p.RedisAddr = options.Address
	redis, err := cache.NewRedis(options)
	if err != nil {
		return nil, err
	}
	p.onClose(redis.Close)
	if patient.Redis != nil && len(o.ShardDSNs) == 0 {
		if err := warm(ctx, options, o.Names); err != nil {
			return nil, err
		}
	}
	return redis, nil
}

// openShards opens the user's shards, or private ones with names in them.
func (p *Path) openShards(ctx context.Context, o Options, patient *fault.Patient) (*shard.Cluster, error) {
	var stores []shard.Store
	var err error
	switch {
	case len(o.ShardDSNs) > 0:
		stores, err = p.openPostgres(ctx, o.ShardDSNs, o)
	case o.Real:
		stores, err = p.startPostgres(ctx, o, patient)
	default:
		stores, err = p.openSQLite(ctx, o, patient)
	}
	cluster, err := openCluster(ctx, stores, err)
	if err != nil {
		return nil, err
	}
	p.onClose(cluster.Close)
	if len(o.ShardDSNs) == 0 && o.Names > 0 {
		if _, err := cluster.Seed(ctx, seed(o.Names)); err != nil {
			return nil, fmt.Errorf("seed: %w", err)
		}
	}
	return cluster, nil
}

// openCluster joins the stores. If they could not all be opened, or cannot be joined, it closes those that are open.
func openCluster(ctx context.Context, stores []shard.Store, err error) (*shard.Cluster, error) {
	var cluster *shard.Cluster
	if err == nil {
		cluster, err = shard.OpenCluster(ctx, stores, shard.DefaultRoutingTable(len(stores)))
	}
	if err != nil {
		for _, s := range stores {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return cluster, nil
}

// seed yields rows for the names that package load asks for, and for the one that everybody wants. They are a day old, and
// their ids are lower than any that is given out.
func seed(names int) iter.Seq[shard.Row] {
	return func(yield func(shard.Row) bool) {
		created := time.Now().Add(-24 * time.Hour)
		if !yield(shard.Row{Name: fault.HotName, UserID: 1, CreatedAt: created}) {
			return
		}
		for i := range names {
			if !yield(shard.Row{Name: load.Name(i), UserID: int64(i) + 2, CreatedAt: created}) {
				return
			}
		}
	}
}

// warm gives a private Redis the markers that an hour of traffic would have left: all but one in ten, which have expired. It uses a
// client of its own, with more patience than a request has, and leaves no trace in the counters.
func warm(ctx context.Context, o cache.RedisOptions, names int) error {
	o.Timeout = startTimeout
	redis, err := cache.NewRedis(o)
	if err != nil {
		return err
	}
	err = redis.MarkAllTaken(ctx, func(yield func(string) bool) {
		for i := range names {
			if i%10 != 0 && !yield(load.Name(i)) {
				return
			}
		}
	})
	return errors.Join(err, redis.Close())
}

// openPostgres opens a store on each DSN. On an error it returns those that are open.
func (p *Path) openPostgres(ctx context.Context, dsns []string, o Options) (stores []shard.Store, err error) {
	for i, dsn := range dsns {
		options := shard.PostgresOptions{PoolSize: o.ShardPool}
		if len(o.ShardReplicaDSNs) > 0 {
			options.Replica = o.ShardReplicaDSNs[i]
		}
		store, err := shard.OpenPostgres(ctx, dsn, options)
		if err != nil {
			return stores, fmt.Errorf("shard%d: %w", i, err)
		}
		stores = append(stores, store)
	}
	p.ShardDSNs = dsns
	return stores, nil
}

func (p *Path) startPostgres(ctx context.Context, o Options, patient *fault.Patient) ([]shard.Store, error) {
	shards := o.Shards
	own, err := StartPostgres(ctx, PostgresOptions{Shards: shards})
	if err != nil {
		return nil, err
	}
	p.onClose(own.Close)
	dsns := make([]string, shards)
	for i := range dsns {
		dsns[i] = own.DSN(i)
	}
	last := shards - 1
	patient.Shard = &fault.Server{
		Stop:  func(context.Context) error { own.Stop(last); return nil },
		Start: func(ctx context.Context) error { return own.Restart(ctx, last) },
	}
	stores, err := p.openPostgres(ctx, dsns, o)
	if err != nil {
		return stores, err
	}
	if leaky, ok := stores[last].(*shard.Postgres); ok {
		patient.HoldShard = leaky.Hold
	}
	return stores, nil
}

func (p *Path) openSQLite(ctx context.Context, o Options, patient *fault.Patient) (stores []shard.Store, err error) {
	files, err := newFolder(nil)
	if err != nil {
		return nil, fmt.Errorf("make folder for shards: %w", err)
	}
	p.onClose(files.remove)
	for i := range o.Shards {
		file := files.join("shard" + strconv.Itoa(i) + ".db")
		p.shardFiles = append(p.shardFiles, file)
		store, err := openReopenable(ctx, file, o.ShardPool)
		if err != nil {
			return stores, fmt.Errorf("shard%d: %w", i, err)
		}
		stores = append(stores, store)
		patient.Shard = &fault.Server{
			Stop:  func(context.Context) error { return store.Close() },
			Start: store.reopen,
		}
	}
	return stores, nil
}

// startFollowers starts the services that want to know of registrations. They say yes to everything.
func (p *Path) startFollowers(ctx context.Context) (url string, err error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("start follow-up services: %w", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Second, ReadTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, 4<<10)) // only to use the connection again
			w.WriteHeader(http.StatusNoContent)
		}),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	p.onClose(func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		return err
	})
	return "http://" + listener.Addr().String(), nil
}
