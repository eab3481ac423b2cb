package bloom_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/regpath/diagnose/reference/bloom"
)

// saved builds a filter of 900 names and saves it.
func saved(tb testing.TB, from *shards) (f *bloom.Filter, path string) {
	tb.Helper()
	f = newFilter(tb, 1000)
	from.commit(yesterday(), numbered("user", 900)...)
	if err := f.Rebuild(tb.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil {
		tb.Fatal(err)
	}
	f.Add("user900", bloom.Register)
	f.CountRegistration()
	f.Add("asked", bloom.Query)
	path = filepath.Join(tb.TempDir(), "filter.snapshot")
	if err := f.Save(tb.Context(), path); err != nil {
		tb.Fatal(err)
	}
	return f, path
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	from := new(shards)
	f, path := saved(t, from)
	want := f.Stats()

	from.commit(time.Now(), "late")                        // registered after the snapshot
	from.commit(time.Now().Add(-time.Second), "straggler") // committed late, by an earlier clock
	g := newFilter(t, 1000)
	from.during = func(func(string)) { g.Add("during", bloom.Register) }
	if err := g.Restore(t.Context(), path, bloom.Plan{Params: g.Params(), From: from}); err != nil {
		t.Fatal(err)
	}
	for _, n := range append(numbered("user", 901), "asked", "late", "straggler", "during") {
		if !g.Test(n) {
			t.Errorf("the restored filter misses %q", n)
		}
	}
	got := g.Stats()
	if got.Generation != 1 || !got.BuiltAt.Equal(want.BuiltAt) || got.Bits != want.Bits || got.Registrations != want.Registrations {
		t.Errorf("restored: %+v, want %+v", got, want)
	}
	if got, want := got.Added, [3]uint64{902, 2, 1}; got != want {
		t.Errorf("restored filter counts %v by source, want %v", got, want)
	}
	if err := g.Rebuild(t.Context(), bloom.Plan{Params: g.Params(), From: from}); err != nil || g.Generation() != 2 {
		t.Errorf("Rebuild after Restore = %v, generation %d, want 2", err, g.Generation())
	}

	// The second snapshot takes the place of the first, and nothing is left.
	if err := g.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("folder holds %v (%v), want the snapshot alone", files, err)
	}
}

// TestSnapshotUnderLoad saves while names are added. Whatever the snapshot
// holds, the filter restored from it misses nobody.
func TestSnapshotUnderLoad(t *testing.T) {
	t.Parallel()
	f, from := newFilter(t, 20_000), new(shards)
	if err := f.Rebuild(t.Context(), bloom.Plan{Params: f.Params(), From: from}); err != nil {
		t.Fatal(err)
	}
	var adding sync.WaitGroup
	for w := range 4 {
		adding.Go(func() {
			for _, n := range numbered(fmt.Sprintf("w%d-", w), 4000) {
				from.commit(time.Now(), n)
				f.Add(n, bloom.Register)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "filter.snapshot")
	if err := f.Save(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	adding.Wait()
	g := newFilter(t, 20_000)
	if err := g.Restore(t.Context(), path, bloom.Plan{Params: g.Params(), From: from}); err != nil {
		t.Fatal(err)
	}
	for _, r := range from.rows {
		if !g.Test(r.name) {
			t.Errorf("the restored filter misses %q", r.name)
		}
	}
}

// The offsets of header fields.
const (
	atVersion  = 8
	atFamily   = 12
	atBits     = 16
	atCapacity = 32
	atNumber   = 48
	headerSize = 104
)

// TestHostileSnapshots restores what is no snapshot of this filter. Nothing
// changes, little is allocated, and a rebuild helps.
func TestHostileSnapshots(t *testing.T) {
	t.Parallel()
	from := new(shards)
	_, path := saved(t, from)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		want   error
		text   string
	}{
		{"empty", cut(0), bloom.ErrSnapshotCorrupt, "read header"},
		{"half a header", cut(50), bloom.ErrSnapshotCorrupt, "read header"},
		{"header alone", cut(headerSize), bloom.ErrSnapshotCorrupt, "bytes, want"},
		{"truncated", cut(len(whole) - 1), bloom.ErrSnapshotCorrupt, "bytes, want"},
		{"longer", func(b []byte) []byte { return append(b, 0) }, bloom.ErrSnapshotCorrupt, "bytes, want"},
		{"text", func([]byte) []byte { return bytes.Repeat([]byte("hello"), 100) }, bloom.ErrSnapshotCorrupt, "does not begin"},
		{"one bit flipped", func(b []byte) []byte { b[headerSize+100] ^= 4; return b }, bloom.ErrSnapshotCorrupt, "checksum"},
		{"count flipped", func(b []byte) []byte { b[headerSize-1] ^= 4; return b }, bloom.ErrSnapshotCorrupt, "checksum"},
		{"checksum flipped", func(b []byte) []byte { b[len(b)-1] ^= 4; return b }, bloom.ErrSnapshotCorrupt, "checksum"},
		{"bits behind the last", func(b []byte) []byte { b[len(b)-33] |= 0x80; return b }, bloom.ErrSnapshotCorrupt, "behind"},
		{"other version", func(b []byte) []byte { b[atVersion] = 9; return b }, bloom.ErrSnapshotForeign, "version 9"},
		{"other hash", func(b []byte) []byte { b[atFamily] = 9; return b }, bloom.ErrSnapshotForeign, "hash family 9"},
		{"huge m", put(atBits, 1<<62), bloom.ErrSnapshotForeign, "bits and"},
		{"all ones m", put(atBits, 1<<64-1), bloom.ErrSnapshotForeign, "bits and"},
		{"other capacity", put(atCapacity, 1_000_000_000), bloom.ErrSnapshotForeign, "1000000000 names"},
		{"never filled", put(atNumber, 0), bloom.ErrSnapshotForeign, "generation 0"},
	} {
		g := newFilter(t, 1000)
		bad := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(bad, c.change(bytes.Clone(whole)), 0o600); err != nil {
			t.Fatal(err)
		}
		err := g.Restore(t.Context(), bad, bloom.Plan{Params: g.Params(), From: from})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: Restore = %v, want %v with %q", c.name, err, c.want, c.text)
		}
		if g.Generation() != 0 || g.Test("user1") {
			t.Errorf("%s: Restore changed the filter", c.name)
		}
		if err := g.Rebuild(t.Context(), bloom.Plan{Params: g.Params(), From: from}); err != nil || !g.Test("user1") {
			t.Errorf("%s: Rebuild afterwards: %v", c.name, err)
		}
	}

	g := newFilter(t, 1000)
	if err := g.Restore(t.Context(), path+".none", bloom.Plan{Params: g.Params(), From: from}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Restore without a snapshot = %v, want %v", err, fs.ErrNotExist)
	}
	if err := g.Restore(t.Context(), t.TempDir(), bloom.Plan{Params: g.Params(), From: from}); !errors.Is(err, bloom.ErrSnapshotCorrupt) {
		t.Errorf("Restore of a folder = %v, want %v", err, bloom.ErrSnapshotCorrupt)
	}
}

// TestSnapshotOfOtherShards restores a sound snapshot beside shards with other
// names, all of them older than it.
func TestSnapshotOfOtherShards(t *testing.T) {
	t.Parallel()
	_, path := saved(t, new(shards))
	other, g := new(shards), newFilter(t, 1000)
	other.commit(yesterday(), numbered("stranger", 900)...)
	if err := g.Restore(t.Context(), path, bloom.Plan{Params: g.Params(), From: other}); !errors.Is(err, bloom.ErrMissing) || g.Generation() != 0 {
		t.Errorf("Restore = %v, generation %d, want %v and nothing changed", err, g.Generation(), bloom.ErrMissing)
	}
}

func TestSaveFails(t *testing.T) {
	t.Parallel()
	from := new(shards)
	f, path := saved(t, from)
	if err := f.Save(t.Context(), filepath.Join(path, "below", "a file")); err == nil {
		t.Error("Save below a file succeeded")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Save(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Save after cancel = %v, want %v", err, context.Canceled)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("folder holds %v (%v), want the first snapshot alone", files, err)
	}
	if err := newFilter(t, 1000).Restore(ctx, path, bloom.Plan{Params: f.Params(), From: from}); !errors.Is(err, context.Canceled) {
		t.Errorf("Restore after cancel = %v, want %v", err, context.Canceled)
	}
}

// TestSaveStreams pins that saving takes no copy of the filter.
func TestSaveStreams(t *testing.T) { // not parallel: it counts what everybody allocates
	f := newFilter(t, 20_000_000) // 24 MB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := f.Save(t.Context(), filepath.Join(t.TempDir(), "filter.snapshot")); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("Save of a 24 MB filter allocated %d bytes", got)
	}
}

// FuzzRestore restores any bytes.
func FuzzRestore(f *testing.F) {
	from := new(shards)
	_, path := saved(f, from)
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:headerSize])
	f.Add([]byte("regbloom"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g := newFilter(t, 1000)
		path := filepath.Join(t.TempDir(), "fuzz")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := g.Restore(t.Context(), path, bloom.Plan{Params: g.Params(), From: from}); err == nil && !bytes.Equal(b, whole) {
			t.Error("Restore took a file that was not saved")
		}
	})
}
