package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference/load"
)

// peerPool is how many connections to PostgreSQL the path's four shards have together, and the peer.
const peerPool = 32

// peers is a bare server: one handler for each duel, with the driver that the
// path uses and nothing around it.
type peers struct {
	url   string
	close func() error
}

func startPeers(ctx context.Context, redisAddr, dsn string, names int) (*peers, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("peer database: %w", err)
	}
	config.MaxConns = peerPool
	db, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("peer database: %w", err)
	}
	if _, err := db.Exec(ctx, "CREATE TABLE bare (username text PRIMARY KEY, created_at timestamptz NOT NULL)"); err != nil {
		db.Close()
		return nil, fmt.Errorf("peer table: %w", err)
	}
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	if _, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range names {
			p.Set(ctx, "bare:"+load.Name(i), "1", 0)
		}
		return nil
	}); err != nil {
		db.Close()
		return nil, errors.Join(fmt.Errorf("peer keys: %w", err), client.Close())
	}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, body []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body)
	}
	// The bytes of a check that the filter answers, headers and all.
	hello := []byte(`{"name":"nobodyhasthis","available":true,"answered_by":"bloom"}` + "\n")
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { answer(w, hello) })
	mux.HandleFunc("GET /get", func(w http.ResponseWriter, r *http.Request) {
		if err := client.Get(r.Context(), "bare:"+r.URL.Query().Get("name")).Err(); err != nil && !errors.Is(err, redis.Nil) {
			http.Error(w, "redis", http.StatusBadGateway)
			return
		}
		answer(w, hello)
	})
	mux.HandleFunc("POST /upsert", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		var at time.Time
		err := db.QueryRow(r.Context(), "INSERT INTO bare VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING created_at", body.Name, time.Now()).Scan(&at)
		if err != nil {
			http.Error(w, "database", http.StatusBadGateway)
			return
		}
		answer(w, hello)
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("peer: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	return &peers{url: "http://" + l.Addr().String(), close: func() error {
		err := server.Close()
		if ended := <-served; !errors.Is(ended, http.ErrServerClosed) {
			err = errors.Join(err, ended)
		}
		db.Close()
		return errors.Join(err, client.Close())
	}}, nil
}
