package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference"
	"github.com/regpath/diagnose/reference/bloom"
	"github.com/regpath/diagnose/reference/cache"
	"github.com/regpath/diagnose/reference/fault"
	"github.com/regpath/diagnose/reference/load"
	"github.com/regpath/diagnose/reference/local"
)

func startPath(t *testing.T, o local.Options) *local.Path {
	t.Helper()
	p, err := local.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

// wire is the part of the diagnostic contract that the faults show in, as a client reads it.
type wire struct {
	Bloom struct {
		M, K, Capacity, Generation, Registrations uint64
		SetBits                                   uint64            `json:"set_bits"`
		AddsBySource                              map[string]uint64 `json:"adds_by_source"`
	}
	Redis struct {
		Address  string
		Pool     wirePool
		Commands uint64
		Errors   uint64
		Misses   uint64
		Hits     map[string]uint64
	}
	Shards struct {
		Shards []struct {
			Requests, Errors uint64
			Pool             wirePool
			TopKeys          struct {
				Keys []struct {
					Key          string
					Count, Error uint64
				}
			} `json:"top_keys"`
		}
	}
	Errors struct {
		Recorded uint64
		Errors   []wireError
	}
	Changes struct {
		Changes []struct{ Kind, What, From, To string }
	}
}

type wireError struct{ Message, Layer, Target, Code string }

type wirePool struct {
	Size, Idle, Pending uint64
	InUse               uint64 `json:"in_use"`
	Acquires, Timeouts  uint64
}

// patient is a path under load with its numbers.
type patient struct {
	*testing.T
	*local.Path

	client http.Client
}

// call sends a request, wants the status, and decodes the answer into v.
func (p *patient) call(method, path, body string, want int, v any) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.URL+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		p.Fatalf("%s %s = %d %s, %v, want %d", method, path, res.StatusCode, b, err, want)
	}
	if v != nil {
		if err := json.Unmarshal(b, v); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *patient) read() wire {
	p.Helper()
	var w wire
	for path, into := range map[string]any{"bloom": &w.Bloom, "redis": &w.Redis, "shards": &w.Shards, "errors": &w.Errors, "changes": &w.Changes} {
		p.call(http.MethodGet, "/debug/diagnose/"+path, "", http.StatusOK, into)
	}
	return w
}

// fault switches a fault over HTTP, twice, for it is idempotent.
func (p *patient) fault(method, name string) {
	p.Helper()
	for range 2 {
		var s fault.State
		p.call(method, "/debug/fault/"+name, "", http.StatusOK, &s)
		if s.Name != name || s.On != (method == http.MethodPost) || s.Help == "" {
			p.Errorf("%s %s = %+v", method, name, s)
		}
	}
}

// eventually polls the numbers until they show what is expected.
func (p *patient) eventually(what string, shows func(wire) bool) wire {
	p.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(20 * time.Second)
	for {
		w := p.read()
		if shows(w) {
			return w
		}
		if time.Now().After(deadline) {
			p.Fatalf("never seen: %s; last: %+v", what, w)
		}
		<-tick.C
	}
}

// falsePositives is the share of fresh canaries that the filter may hold.
func (p *patient) falsePositives() float64 {
	p.Helper()
	const n = 2000
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("zz0canary%d", i)
	}
	body, err := json.Marshal(map[string][]string{"names": names})
	if err != nil {
		p.Fatal(err)
	}
	var doc struct{ Maybe []int }
	p.call(http.MethodPost, "/debug/diagnose/bloom/test", string(body), http.StatusOK, &doc)
	return float64(len(doc.Maybe)) / n
}

// tells says whether such an error was recorded. Others may be among them: a machine that stalls for a second times out.
func (w wire) tells(such func(wireError) bool) bool {
	return slices.ContainsFunc(w.Errors.Errors, such)
}

// registers registers the name until the answer is the one wanted.
func (p *patient) registers(name string, want int) {
	p.Helper()
	p.eventually(fmt.Sprintf("registration of %s answered with %d", name, want), func(wire) bool {
		req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.URL+"/v1/register", strings.NewReader(`{"name":"`+name+`"}`))
		if err != nil {
			p.Fatal(err)
		}
		res, err := p.client.Do(req)
		if err != nil {
			p.Fatal(err)
		}
		return res.Body.Close() == nil && res.StatusCode == want
	})
}

// changed returns the last recorded change of what, from and to.
func (w wire) changed(what string) string {
	for _, c := range slices.Backward(w.Changes.Changes) {
		if c.What == what {
			return c.Kind + " " + c.From + " to " + c.To
		}
	}
	return "unchanged"
}

// TestFaults switches every fault on under load, sees its effect in the numbers, switches it off, and sees it gone.
func TestFaults(t *testing.T) {
	for _, servers := range []bool{false, true} {
		t.Run(fmt.Sprintf("real=%v", servers), func(t *testing.T) {
			t.Parallel()
			const names = 2000
			p := &patient{T: t, Path: startPath(t, local.Options{Real: servers, Shards: 2, Names: names, LocalCache: 100, Faults: true}), client: http.Client{Timeout: time.Minute}}
			defer p.client.CloseIdleConnections()

			profile := load.Profile{Rate: 400, Duration: time.Minute, Workers: 128, Names: names, TakenShare: 0.9, RegisterShare: 0.02}
			ctx, stop := context.WithCancel(t.Context())
			loaded := make(chan struct{})
			go func() {
				defer close(loaded)
				if _, err := load.Run(ctx, p.URL, profile); err != nil {
					t.Errorf("load: %v", err)
				}
			}()
			defer func() { stop(); <-loaded }()

			well := p.eventually("a well path under load", func(w wire) bool { return w.Redis.Hits["taken"] > 50 && w.Bloom.Registrations > 0 })
			if rate := p.falsePositives(); rate > 0.02 {
				t.Fatalf("not well to begin with: false positives %.3f", rate)
			}
			p.undersized(names)
			p.writeOnRead()
			p.redisPool(well)
			p.redisPoolLeak()
			p.redisDown()
			p.shardDown(servers)
			p.errorBurst()
			var all struct{ Faults []fault.State }
			p.call(http.MethodGet, "/debug/fault/", "", http.StatusOK, &all)
			if len(all.Faults) != 7 {
				t.Errorf("%d faults, want 7: %+v", len(all.Faults), all)
			}
			for _, f := range all.Faults {
				if f.On {
					t.Errorf("%s is still on", f.Name)
				}
			}
		})
	}
}

func (p *patient) undersized(names uint64) {
	before := p.read()
	p.fault(http.MethodPost, "bloom-undersized")
	w := p.read()
	if fill := float64(w.Bloom.SetBits) / float64(w.Bloom.M); w.Bloom.Capacity > names/5+50 || fill < 0.9 {
		p.Errorf("undersized: capacity %d, fill %.2f, want a fifth of %d and nearly full", w.Bloom.Capacity, fill, names)
	}
	if rate := p.falsePositives(); rate < 0.5 {
		p.Errorf("undersized: false positives %.3f, want most", rate)
	}
	p.eventually("free names reach Redis", func(w wire) bool { return w.Redis.Misses > before.Redis.Misses+10 })
	p.fault(http.MethodDelete, "bloom-undersized")
	if w := p.read(); w.Bloom.Capacity != before.Bloom.Capacity || p.falsePositives() > 0.02 {
		p.Errorf("undersized, off: %+v, false positives %.3f", w.Bloom, p.falsePositives())
	}
}

func (p *patient) writeOnRead() {
	p.fault(http.MethodPost, "write-on-read")
	w := p.eventually("the query path writes", func(w wire) bool { return w.Bloom.AddsBySource["query"] > 100 })
	if got, want := w.changed("filter_write_on_read"), "flag false to true"; got != want {
		p.Errorf("write-on-read: change %q, want %q", got, want)
	}
	if w.Bloom.AddsBySource["query"] <= w.Bloom.Registrations {
		p.Errorf("write-on-read: %+v, want more adds than registrations", w.Bloom)
	}
	p.fault(http.MethodDelete, "write-on-read")
	w = p.eventually("registrations after the rebuild", func(w wire) bool { return w.Bloom.AddsBySource["register"] > 1 })
	if w.Bloom.AddsBySource["query"] != 0 || w.changed("filter_write_on_read") != "flag true to false" {
		p.Errorf("write-on-read, off: %+v, %s", w.Bloom, w.changed("filter_write_on_read"))
	}
}

func (p *patient) redisPool(well wire) {
	p.fault(http.MethodPost, "redis-pool")
	// The load alone may not fill two connections on a fast machine.
	ctx, stop := context.WithCancel(p.Context())
	var asking sync.WaitGroup
	for i := range 100 {
		asking.Go(func() {
			for j := i; ctx.Err() == nil; j += 100 {
				_, _ = p.Service.Redis.Lookup(ctx, load.Name(j%2000)) // the numbers tell what came of it
			}
		})
	}
	w := p.eventually("the pool is used up", func(w wire) bool {
		r := w.Redis.Pool
		return r.Size == 2 && r.InUse == 2 && r.Idle == 0 && r.Pending > 20 && r.Timeouts > 0
	})
	if got, want := w.changed("redis_pool_size"), "config 20 to 2"; got != want {
		p.Errorf("redis-pool: change %q, want %q", got, want)
	}
	if got, want := w.changed("redis_address"), "config "+p.RedisAddr+" to "+w.Redis.Address; got != want || w.Redis.Address == p.RedisAddr {
		p.Errorf("redis-pool: change %q, want %q", got, want)
	}
	stop()
	asking.Wait()
	p.fault(http.MethodDelete, "redis-pool")
	p.healed(well)
}

func (p *patient) redisPoolLeak() {
	before := p.read()
	p.fault(http.MethodPost, "redis-pool-leak")
	p.eventually("all connections are held and nothing moves", func(w wire) bool {
		r := w.Redis.Pool
		return r.Size == 20 && r.InUse == 20 && r.Idle == 0 && r.Timeouts > before.Redis.Pool.Timeouts
	})
	p.fault(http.MethodDelete, "redis-pool-leak")
	p.healed(before)
}

// healed waits until Redis answers with the options it had before, without errors.
func (p *patient) healed(before wire) {
	p.Helper()
	w := p.read()
	if w.Redis.Address != before.Redis.Address || w.Redis.Pool.Size != before.Redis.Pool.Size {
		p.Errorf("off: address %s, size %d, want %s, %d", w.Redis.Address, w.Redis.Pool.Size, before.Redis.Address, before.Redis.Pool.Size)
	}
	last := w
	p.eventually("Redis works again", func(w wire) bool {
		quiet := w.Redis.Errors == last.Redis.Errors && w.Redis.Commands > last.Redis.Commands && w.Redis.Pool.Pending == 0
		last = w
		return quiet
	})
}

func (p *patient) redisDown() {
	before := p.read()
	p.fault(http.MethodPost, "redis-down")
	if conn, err := (&net.Dialer{}).DialContext(p.Context(), "tcp", p.RedisAddr); err == nil {
		_ = conn.Close()
		p.Error("redis-down: something still listens")
	}
	w := p.eventually("Redis fails and shards answer", func(w wire) bool {
		return w.Redis.Errors > before.Redis.Errors+20 && w.Shards.Shards[0].Requests > before.Shards.Shards[0].Requests+5
	})
	refused := func(e wireError) bool { return e == wireError{e.Message, "redis", p.RedisAddr, "ECONNREFUSED"} }
	if !w.tells(refused) {
		p.Errorf("redis-down: errors %+v, want a refused connection", w.Errors)
	}
	p.fault(http.MethodDelete, "redis-down")
	p.healed(before)
}

func (p *patient) shardDown(servers bool) {
	before := p.read()
	p.fault(http.MethodPost, "shard-down")
	w := p.eventually("the last shard fails", func(w wire) bool {
		return w.Shards.Shards[1].Errors > before.Shards.Shards[1].Errors+2 && w.tells(func(e wireError) bool {
			closed := e.Code == "ECONNREFUSED"
			if !servers {
				closed = strings.Contains(e.Message, "database is closed")
			}
			return closed && e.Layer == "shard" && e.Target == "shard1"
		})
	})
	lost, kept := p.freeName(1), p.freeName(0)
	p.registers(lost, http.StatusServiceUnavailable)
	p.registers(kept, http.StatusCreated)
	p.fault(http.MethodDelete, "shard-down")
	p.registers(lost, http.StatusCreated)
	if after := p.read(); after.Shards.Shards[1].Pool.Acquires < w.Shards.Shards[1].Pool.Acquires {
		p.Errorf("shard-down: acquires went back from %d to %d", w.Shards.Shards[1].Pool.Acquires, after.Shards.Shards[1].Pool.Acquires)
	}
}

// freeName is a name that the shard given would own.
func (p *patient) freeName(owner int) string {
	for i := 0; ; i++ {
		if n := fmt.Sprintf("owned%d-%d", owner, i); p.Service.Shards.Owner(n) == owner {
			return n
		}
	}
}

func (p *patient) errorBurst() {
	p.fault(http.MethodPost, "error-burst")
	w := p.eventually("follow-ups are refused", func(w wire) bool {
		return w.tells(func(e wireError) bool { return e == wireError{e.Message, "event", "profile-service", "ECONNREFUSED"} })
	})
	if got := w.changed("followup_url"); !strings.HasSuffix(got, " to http://127.0.0.1:9/v1/profiles") {
		p.Errorf("error-burst: change %q", got)
	}
	p.fault(http.MethodDelete, "error-burst")
	last := p.read()
	p.eventually("registrations go on without errors", func(w wire) bool {
		quiet := w.Errors.Recorded == last.Errors.Recorded && w.Bloom.Registrations > last.Bloom.Registrations
		last = w
		return quiet
	})
}

// TestHotName is the one fault that needs no switch: registrations of one name go to its shard.
func TestHotName(t *testing.T) {
	t.Parallel()
	p := &patient{T: t, Path: startPath(t, local.Options{Shards: 4, Names: 2000}), client: http.Client{Timeout: time.Minute}}
	for _, s := range fault.Scenarios(2000, 500*time.Millisecond) {
		if s.Name != "hot-name" {
			continue
		}
		if _, err := load.Run(t.Context(), p.URL, s.Load); err != nil {
			t.Fatal(err)
		}
	}
	w, hot, sum := p.read(), p.Service.Shards.Owner(fault.HotName), uint64(0)
	for _, s := range w.Shards.Shards {
		sum += s.Requests
	}
	keys, requests := w.Shards.Shards[hot].TopKeys.Keys, w.Shards.Shards[hot].Requests
	if len(keys) == 0 || keys[0].Key != fault.HotName || (keys[0].Count-keys[0].Error)*2 < requests || requests*2 < sum {
		t.Errorf("shard %d has %d of %d requests, top keys %+v, want most, of %q", hot, requests, sum, keys, fault.HotName)
	}
}

// TestYours runs two instances on Redis and databases of somebody else, and lets users race for names over both.
func TestYours(t *testing.T) {
	t.Parallel()
	redis, err := local.StartRedis(t.Context(), local.RedisOptions{Real: true})
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := local.StartPostgres(t.Context(), local.PostgresOptions{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(redis.Close(), postgres.Close()); err != nil {
			t.Error(err)
		}
	})
	var instances []*local.Path
	for machine := range 2 {
		instances = append(instances, startPath(t, local.Options{
			Redis:     cache.RedisOptions{Address: redis.Addr()},
			ShardDSNs: []string{postgres.DSN(0), postgres.DSN(1)},
			Names:     1000, Machine: machine, Faults: true,
		}))
	}
	p := instances[0]
	if p.RedisAddr != redis.Addr() || len(p.ShardDSNs) != 2 || p.Service.Filter.Stats().NamesAdded() != 0 {
		t.Errorf("path = %+v with %d names, want what was given, and nothing seeded", p, p.Service.Filter.Stats().NamesAdded())
	}
	for _, s := range p.Faults.List() {
		if s.Name == "redis-down" || s.Name == "shard-down" {
			t.Errorf("%s is offered for servers that are not ours", s.Name)
		}
	}
	ids := map[int64]bool{}
	for i := range 30 {
		n := fmt.Sprintf("wanted%d", i)
		var won, taken atomic.Int32
		var id atomic.Int64
		var race sync.WaitGroup
		for _, p := range instances {
			for range 3 {
				race.Go(func() {
					switch r, err := p.Service.Register(t.Context(), n); {
					case err == nil:
						won.Add(1)
						id.Store(r.UserID)
					case errors.Is(err, reference.ErrTaken):
						taken.Add(1)
					default:
						t.Errorf("register: %v", err)
					}
				})
			}
		}
		race.Wait()
		if won.Load() != 1 || taken.Load() != 5 || ids[id.Load()] {
			t.Errorf("%s: %d won, %d were refused, id %d", n, won.Load(), taken.Load(), id.Load())
		}
		ids[id.Load()] = true
	}
}

// TestCloseLeavesNothing starts in a temporary folder of its own and looks into it.
func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	p, err := local.Start(t.Context(), local.Options{Shards: 2, Names: 100, Faults: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Faults.Switch(t.Context(), "redis-down", true); err != nil { // closing mends it
		t.Fatal(err)
	}
	if _, err := p.Faults.Switch(t.Context(), "shard-down", true); err != nil {
		t.Fatal(err)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*.db")); err != nil || len(files) != 2 {
		t.Errorf("shards lie in %v, %v, want two files", files, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("Close returned before the path was done")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, address := range []string{strings.TrimPrefix(p.URL, "http://"), p.RedisAddr} {
		if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s still answers", address)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	f := func(o local.Options, want string) {
		t.Helper()
		p, err := local.Start(t.Context(), o)
		if err == nil {
			_ = p.Close()
			t.Errorf("Start(%+v) succeeded, want an error with %q", o, want)
			return
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Start error = %v, want %q in it and no secret", err, want)
		}
	}
	f(local.Options{Shards: -1}, "number of shards")
	f(local.Options{Shards: 1025}, "number of shards")
	f(local.Options{Names: -1}, "number of names")
	f(local.Options{Machine: 1024}, "machine number")
	f(local.Options{Filter: bloom.Params{Rate: 2}}, "target rate")
	f(local.Options{LocalCache: -1}, "local cache size")
	f(local.Options{FollowUpURL: "http://u:s3cret@h/"}, "follow-up URL")
	f(local.Options{Redis: cache.RedisOptions{Address: "h:1", PoolSize: -1, Password: "s3cret"}}, "pool size")
	f(local.Options{ShardDSNs: []string{"postgres://u:s3cret@127.0.0.1:1/x?connect_timeout=1"}}, "shard0")
	f(local.Options{ShardDSNs: []string{"postgres://u:s3cret@h:x/"}}, "shard0")
	f(local.Options{Listen: busy.Addr().String(), Shards: 1}, "address already in use")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("failed starts left behind: %v, %v", left, err)
	}
}
