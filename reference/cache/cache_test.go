package cache_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/regpath/diagnose/reference/cache"
)

func open(t *testing.T, o cache.RedisOptions) *cache.Redis {
	t.Helper()
	r, err := cache.NewRedis(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// TestDown pins that a dead Redis is an error, never an answer.
func TestDown(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	r := open(t, cache.RedisOptions{Address: server.Addr()})
	lease, err := r.Lease(t.Context(), "love")
	if err != nil {
		t.Fatal(err)
	}
	if entered, err := r.Fill(t.Context(), "love", lease, false); err != nil || !entered {
		t.Fatalf("Fill = %v, %v, want it entered", entered, err)
	}
	server.Close()
	for range 50 {
		if got, err := r.Lookup(t.Context(), "love"); err == nil || got != cache.Miss {
			t.Fatalf("Lookup on a dead Redis = %v, %v, want an error", got, err)
		}
	}
	if err := r.MarkTaken(t.Context(), "love"); err == nil {
		t.Error("MarkTaken on a dead Redis succeeded")
	}
	s := r.Stats()
	if s.Errors != 51 || s.LookupErrors != 50 || s.Pool.Timeouts != 0 {
		t.Errorf("Stats() = %+v, want 51 errors, 50 of them look-ups, and no timeout: it was refused", s)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cache works again", func() bool { _, err := r.Lookup(t.Context(), "love"); return err == nil })
}

// TestDeadlineInPool is the case in which go-redis's own counters stay at zero.
func TestDeadlineInPool(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	r := open(t, cache.RedisOptions{Address: server.Addr(), PoolSize: 2, Timeout: 10 * time.Second})
	var held []func() error
	for range 2 {
		release, err := r.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	if p := r.Stats().Pool; p.InUse != 2 || p.Idle != 0 || p.Pending != 0 {
		t.Errorf("pool with all connections held = %+v", p)
	}
	var waiting sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		waiting.Go(func() { _, _ = r.Lookup(ctx, "love") })
	}
	eventually(t, "three commands wait", func() bool { return r.Stats().Pool.Pending == 3 })
	cancel()
	waiting.Wait()
	for range 5 {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := r.Lookup(short, "love"); !errors.Is(err, cache.ErrNoConnection) {
			t.Errorf("Lookup = %v, want %v", err, cache.ErrNoConnection)
		}
		cancel()
	}
	if p := r.Stats().Pool; p.Timeouts != 5 || p.Waits < 5 || p.WaitTime < 80*time.Millisecond || p.Pending != 0 {
		t.Errorf("pool after 5 waits in vain = %+v, want them counted with their time", p)
	}
	for _, release := range held {
		if err := release(); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.Lookup(t.Context(), "love"); err != nil {
		t.Errorf("Lookup after the release: %v", err)
	}
	if p := r.Stats().Pool; p.InUse != 0 || p.Idle != 2 {
		t.Errorf("pool after the release = %+v", p)
	}
}

// TestReadTimeoutIsNoPoolTimeout asks a server that never answers.
func TestReadTimeoutIsNoPoolTimeout(t *testing.T) {
	t.Parallel()
	mute, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	r := open(t, cache.RedisOptions{Address: mute.Addr().String(), Timeout: 50 * time.Millisecond})
	if _, err := r.Lookup(t.Context(), "love"); err == nil || errors.Is(err, cache.ErrNoConnection) {
		t.Errorf("Lookup at a mute server = %v, want a network timeout", err)
	}
	if s := r.Stats(); s.Pool.Timeouts != 0 || s.Errors != 1 {
		t.Errorf("Stats() = %+v, want one error and no pool timeout", s)
	}
}

// TestReplace changes the client under load: no command fails, no count is lost.
func TestReplace(t *testing.T) {
	t.Parallel()
	one, two := miniredis.RunT(t), miniredis.RunT(t)
	r := open(t, cache.RedisOptions{Address: one.Addr(), Timeout: 10 * time.Second})
	const workers, each = 4, 300
	var asking sync.WaitGroup
	for range workers {
		asking.Go(func() {
			for range each {
				if _, err := r.Lookup(t.Context(), "love"); err != nil {
					t.Errorf("Lookup during Replace: %v", err)
				}
			}
		})
	}
	last := r.Stats()
	for i := range 10 {
		o := r.Options()
		o.Address, o.PoolSize = []string{one.Addr(), two.Addr()}[i%2], 1+i
		if err := r.Replace(o); err != nil {
			t.Fatal(err)
		}
		now := r.Stats()
		if now.Pool.Acquires < last.Pool.Acquires || now.Pool.Waits < last.Pool.Waits || now.Pool.WaitTime < last.Pool.WaitTime || now.Commands < last.Commands {
			t.Errorf("counters went back: %+v, then %+v", last, now)
		}
		if now.Address != o.Address || now.Pool.Size != o.PoolSize {
			t.Errorf("address %s, size %d, want %s, %d", now.Address, now.Pool.Size, o.Address, o.PoolSize)
		}
		last = now
	}
	asking.Wait()
	s := r.Stats()
	if s.Commands != workers*each || s.Pool.Acquires != workers*each || s.Pool.Hits+s.Pool.Misses < workers*each {
		t.Errorf("Stats() = %+v, want %d commands and acquires", s, workers*each)
	}
	if err := r.Replace(cache.RedisOptions{}); err == nil {
		t.Error("Replace without an address succeeded")
	}
}

func TestParseRedis(t *testing.T) {
	t.Parallel()
	o, err := cache.ParseRedis("rediss://ann:s3cret@cache.example:6380/2")
	if err != nil || o.Address != "cache.example:6380" || o.Username != "ann" || string(o.Password) != "s3cret" || o.DB != 2 || o.TLS == nil {
		t.Errorf("ParseRedis of a URL = %+v, %v", o, err)
	}
	if o, err := cache.ParseRedis("127.0.0.1:6379"); err != nil || o.Address != "127.0.0.1:6379" || o.TLS != nil {
		t.Errorf("ParseRedis of host:port = %+v, %v", o, err)
	}
	for _, bad := range []string{"http://ann:s3cret@h/", "redis://ann:s3cret@h:port/", "unix:///s3cret"} {
		if _, err := cache.ParseRedis(bad); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseRedis(%q) = %v, want an error that tells no secret", bad, err)
		}
	}
	if _, err := cache.NewRedis(cache.RedisOptions{Address: "h:1", PoolSize: -1}); err == nil {
		t.Error("NewRedis with a negative pool succeeded")
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	t.Parallel()
	o := cache.RedisOptions{Address: "h:1", Password: "s3cret"}
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("options", "options", o, "password", o.Password)
	text, err := o.Password.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintf("%v %+v %#v %s %q %s %s", o, o, o, o.Password, o.Password, out.String(), text)
	if strings.Contains(all, "s3cret") {
		t.Errorf("the password is printed: %s", all)
	}
}
