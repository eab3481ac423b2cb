package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"time"
)

// Limits of the diagnostic contract.
const (
	maxTestNames   = 20_000
	maxVerifyNames = 5_000
	verifyTimeout  = time.Second
	// maxVerifyGroups bounds what many writers would make of the answer.
	maxVerifyGroups = 32
)

// diagnose mounts the diagnostic contract. What is mounted with get is in the
// snapshot too.
func (s *Server) diagnose(mux *http.ServeMux) {
	documents := map[string]func() any{}
	get := func(name string, document func() any) {
		documents[name] = document
		mux.HandleFunc("GET /debug/diagnose/"+name, func(w http.ResponseWriter, _ *http.Request) {
			write(w, http.StatusOK, document())
		})
	}
	build := readBuild(s.startedAt)
	get("bloom", func() any { return s.bloomDoc() })
	get("redis", func() any { return s.redisDoc() })
	get("shards", func() any { return s.shardsDoc() })
	get("requests", func() any { return s.requestsDoc() })
	get("clock", func() any { return s.clockDoc() })
	get("latency", func() any { return s.latencyDoc() })
	get("traffic", func() any { return s.trafficDoc() })
	get("changes", func() any { return changesDoc{Now: time.Now(), Build: build, Changes: s.changes.snapshot()} })
	get("errors", func() any {
		kept, recorded, gone := s.errors.snapshot()
		return errorsDoc{Now: time.Now(), StartedAt: s.startedAt, Capacity: ErrorCapacity, Recorded: recorded, Gone: gone, Errors: kept}
	})
	mux.HandleFunc("GET /debug/diagnose/snapshot", func(w http.ResponseWriter, _ *http.Request) {
		all := make(map[string]any, len(documents))
		for name, document := range documents {
			all[name] = document()
		}
		write(w, http.StatusOK, all)
	})
	mux.HandleFunc("POST /debug/diagnose/bloom/test", s.serveBloomTest)
	mux.HandleFunc("GET /debug/diagnose/bloom/verify", s.serveBloomVerify)
	mux.HandleFunc("POST /debug/diagnose/route", s.serveRoute)
	mux.HandleFunc("GET /debug/diagnose/consistency/sample", s.serveConsistency)
}

// serveBloomTest tests canaries. It touches nothing but the filter.
func (s *Server) serveBloomTest(w http.ResponseWriter, r *http.Request) {
	names, err := decodeNames(w, r, maxTestNames)
	if err != nil {
		fail(w, err)
		return
	}
	valid, index := make([]string, 0, len(names)), make([]int, 0, len(names))
	distinct := make(map[string]struct{}, len(names))
	for i, raw := range names {
		n, err := s.service.Canonical(raw)
		if err != nil {
			continue
		}
		valid, index = append(valid, n), append(index, i)
		distinct[n] = struct{}{}
	}
	generation, maybe := s.service.Filter.TestAll(valid)
	for i, at := range maybe {
		maybe[i] = index[at]
	}
	write(w, http.StatusOK, testDoc{
		Now: time.Now(), Generation: generation,
		Tested: len(valid), Distinct: len(distinct), Invalid: len(names) - len(valid), Maybe: maybe,
	})
}

// serveBloomVerify looks for false negatives among existing names.
func (s *Server) serveBloomVerify(w http.ResponseWriter, r *http.Request) {
	n, minAge, err := verifyQuery(r.URL)
	if err != nil {
		fail(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), verifyTimeout)
	defer cancel()
	doc := verifyDoc{Shards: []verifyShardDoc{}, Groups: []verifyGroupDoc{}}
	found := s.service.Verify(ctx, n, time.Now().Add(-minAge))
	for _, v := range found.Shards {
		d := verifyShardDoc{Shard: v.Shard}
		if v.Err != nil {
			d.Error = shortError(v.Err)
		} else {
			d.Sampled, d.Missing = &v.Sampled, &v.Missing
			doc.Sampled += v.Sampled
			doc.Missing += v.Missing
		}
		doc.Shards = append(doc.Shards, d)
	}
	doc.Latest.Sampled, doc.Latest.Missing = found.Latest.Sampled, found.Latest.Missing
	for _, g := range found.Groups[:min(len(found.Groups), maxVerifyGroups)] {
		doc.Groups = append(doc.Groups, verifyGroupDoc{By: g.By, Group: g.Group, Sampled: g.Sampled, Missing: g.Missing, KnownAfter: g.KnownAfter})
	}
	doc.Now, doc.Generation = time.Now(), s.service.Filter.Generation()
	write(w, http.StatusOK, doc)
}

func verifyQuery(u *url.URL) (n int, minAge time.Duration, err error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return 0, 0, badRequest("query is malformed")
	}
	n, minAge = 1000, 5*time.Second
	if v := q.Get("n"); v != "" {
		if n, err = strconv.Atoi(v); err != nil || n < 1 || n > maxVerifyNames {
			return 0, 0, badRequest(fmt.Sprintf("n must be a number from 1 to %d", maxVerifyNames))
		}
	}
	if v := q.Get("min_age"); v != "" {
		if minAge, err = time.ParseDuration(v); err != nil || minAge < 0 {
			return 0, 0, badRequest("min_age must be a duration such as 5s, and not negative")
		}
	}
	return n, minAge, nil
}

// shortError says in a word why a shard could not be asked.
func shortError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if c := code(err); c != "" {
		return c
	}
	return clip(err.Error())
}

// readBuild returns what the Go linker knows about this binary.
func readBuild(startedAt time.Time) buildDoc {
	doc := buildDoc{Version: "unknown", StartedAt: startedAt}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return doc
	}
	if info.Main.Version != "" {
		doc.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			doc.Revision = s.Value
		}
	}
	return doc
}
