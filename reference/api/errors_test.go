package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/shard"
)

// redisError is what go-redis returns for an error reply.
type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

var _ redis.Error = redisError("")

func TestCode(t *testing.T) {
	t.Parallel()
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{&pgconn.PgError{Code: "23505"}, "23505"},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "ECONNREFUSED"},
		{dial(syscall.ECONNRESET), "ECONNRESET"},
		{syscall.EPIPE, "EPIPE"},
		{syscall.ECONNABORTED, "ECONNABORTED"},
		{syscall.ETIMEDOUT, "ETIMEDOUT"},
		{syscall.EHOSTUNREACH, "EHOSTUNREACH"},
		{syscall.ENETUNREACH, "ENETUNREACH"},
		{syscall.EADDRNOTAVAIL, "EADDRNOTAVAIL"},
		{syscall.EMFILE, "EMFILE"},
		{syscall.ENFILE, "ENFILE"},
		{syscall.ENOSPC, "ENOSPC"},
		{syscall.EXDEV, ""},
		{redisError("READONLY You can't write against a read only replica."), "READONLY"},
		{redisError("OOM command not allowed"), "OOM"},
		{redisError("MISCONF"), "MISCONF"},
		{redisError("value is not an integer"), ""},
		{context.DeadlineExceeded, "timeout"},
		{os.ErrDeadlineExceeded, "timeout"},
		{dial(os.ErrDeadlineExceeded), "timeout"},
		{fmt.Errorf("%w: %w", cache.ErrNoConnection, context.DeadlineExceeded), "pool_timeout"},
		{fmt.Errorf("%w: %w", shard.ErrNoConnection, context.DeadlineExceeded), "pool_timeout"},
		{errors.New("sql: database is closed"), ""},
	} {
		if got := code(fmt.Errorf("layer: %w", c.err)); got != c.want {
			t.Errorf("code(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

func TestErrorLog(t *testing.T) {
	t.Parallel()
	l := NewErrorLog()
	const n = ErrorCapacity + 7
	for i := range n {
		l.Record(reference.Failure{Layer: reference.Redis, Target: "127.0.0.1:1", Err: fmt.Errorf("error %d", i)})
	}
	kept, recorded, gone := l.snapshot()
	if recorded != n || len(kept) != ErrorCapacity {
		t.Fatalf("recorded %d, kept %d, want %d, %d", recorded, len(kept), n, ErrorCapacity)
	}
	if kept[0].Message != "error 7" || kept[ErrorCapacity-1].Message != fmt.Sprintf("error %d", n-1) {
		t.Errorf("kept %q to %q, want the newest, oldest first", kept[0].Message, kept[ErrorCapacity-1].Message)
	}
	if want := (goneDoc{Count: 7, KeptSince: kept[0].At}); len(gone) != 1 || gone[reference.Redis] != want {
		t.Errorf("gone = %v, want %v of Redis", gone, want)
	}
	if got := l.counts()[reference.Redis]; got != n {
		t.Errorf("redis errors = %d, want %d", got, n)
	}
	if kept, recorded, gone := NewErrorLog().snapshot(); kept == nil || len(kept)+len(gone) != 0 || recorded != 0 {
		t.Errorf("an empty log = %v, %d, %v, want an empty list", kept, recorded, gone)
	}
}

// TestStorm lets one layer drown the others.
func TestStorm(t *testing.T) {
	t.Parallel()
	l := NewErrorLog()
	record := func(layer reference.Layer, n int) {
		for i := range n {
			l.Record(reference.Failure{Layer: layer, Err: fmt.Errorf("error %d", i)})
		}
	}
	record(reference.Event, 1)
	record(reference.Shard, layerCapacity+50)
	record(reference.Redis, 3*ErrorCapacity)
	record(reference.Shard, 10)
	kept, recorded, gone := l.snapshot()
	if want := uint64(1 + layerCapacity + 50 + 3*ErrorCapacity + 10); recorded != want {
		t.Errorf("recorded %d, want %d", recorded, want)
	}
	// Of the newest 1000 the last ten are the shard's; ninety of it are kept beside.
	if len(kept) != 1+90+ErrorCapacity || kept[0].Layer != reference.Event || kept[1].Layer != reference.Shard ||
		kept[1].Message != fmt.Sprintf("error %d", 50+10) || kept[91].Layer != reference.Redis || kept[len(kept)-1].Message != "error 9" {
		t.Errorf("kept %d errors, the first of them %v", len(kept), kept[:2])
	}
	if !slices.IsSortedFunc(kept, func(a, b errorDoc) int { return a.At.Compare(b.At) }) {
		t.Error("the errors are not in order")
	}
	want := map[reference.Layer]goneDoc{
		reference.Shard: {Count: 60, KeptSince: kept[1].At},
		reference.Redis: {Count: 2*ErrorCapacity + 10, KeptSince: kept[91].At},
	}
	if !maps.Equal(gone, want) {
		t.Errorf("gone = %v, want %v", gone, want)
	}
}

func FuzzClip(f *testing.F) {
	f.Add(strings.Repeat("王", 400))
	f.Add("short")
	f.Add(strings.Repeat("a", maxMessage-1) + "\xf0\x9f\x98")
	f.Add(strings.Repeat("\xff", 2000))
	f.Fuzz(func(t *testing.T, s string) {
		got := clip(s)
		if len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("clip(%q) = %q: %d bytes, valid %v", s, got, len(got), utf8.ValidString(got))
		}
		if len(s) <= maxMessage && utf8.ValidString(s) && got != s {
			t.Errorf("clip(%q) = %q, want it back", s, got)
		}
	})
}

func TestChangeLog(t *testing.T) {
	t.Parallel()
	var l ChangeLog
	if got := l.snapshot(); got == nil || len(got) != 0 {
		t.Errorf("an empty log = %v, want an empty list", got)
	}
	for i := range changeCapacity + 3 {
		l.Record(Change{Kind: "config", What: strconv.Itoa(i)})
	}
	got := l.snapshot()
	if len(got) != changeCapacity || got[0].What != "3" || got[changeCapacity-1].What != strconv.Itoa(changeCapacity+2) {
		t.Errorf("kept %d, %s to %s, want the newest, oldest first", len(got), got[0].What, got[len(got)-1].What)
	}
	if got[1].At.Before(got[0].At) || got[0].At.IsZero() {
		t.Errorf("times %s, %s are not in order", got[0].At, got[1].At)
	}
}
